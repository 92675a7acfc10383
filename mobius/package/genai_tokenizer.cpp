// Which class reads which tokenizer.json (measured with onnxruntime-genai 0.18 against the tokenizers library), and where templates are.
#include "mobius/package/genai_tokenizer.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"

namespace mobius::package {
namespace {

// Whether a normalizer, pre-tokenizer or decoder is of a type, or is a sequence with one.
bool has_step(const Json* step, std::string_view type) {
  if (!step) return false;
  const auto* own = step->find("type");
  if (own && *own == Json(type)) return true;
  for (const char* key : {"normalizers", "pretokenizers", "decoders"}) {
    const auto* steps = step->find(key);
    if (!steps || !steps->is_array()) continue;
    if (std::ranges::any_of(steps->as_array(), [&](const Json& inner) { return has_step(&inner, type); })) return true;
  }
  return false;
}

bool has_step(const Json& tokenizer, std::string_view type) {
  return has_step(tokenizer.find("normalizer"), type) || has_step(tokenizer.find("pre_tokenizer"), type) || has_step(tokenizer.find("decoder"), type);
}

std::string_view model_type(const Json& tokenizer) {
  const auto* model = tokenizer.find("model");
  const auto* type = model ? model->find("type") : nullptr;
  if (type && type->is_string()) return type->as_string();
  return model && model->find("merges") ? "BPE" : "";  // older files leave it out
}

bool is_unigram(const Json& tokenizer) { return model_type(tokenizer) == "Unigram"; }
bool is_byte_level(const Json& tokenizer) { return model_type(tokenizer) == "BPE" && has_step(tokenizer, "ByteLevel"); }
// SentencePiece's BPE: a space is "▁", which a Metaspace step or a replacement puts in, and unknown characters become bytes.
bool is_metaspace(const Json& tokenizer) {
  return model_type(tokenizer) == "BPE" && (has_step(tokenizer, "Metaspace") || (has_step(tokenizer, "Replace") && has_step(tokenizer, "ByteFallback")));
}

struct Reader {
  bool (*reads)(const Json& tokenizer);
  std::vector<std::string_view> classes;  // that give the right ids; the first is put in the place of any other
};
const Reader readers[] = {
    {is_byte_level, {"PreTrainedTokenizerFast", "GPT2Tokenizer", "Qwen2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer", "WhisperTokenizer"}},
    {is_metaspace, {"GemmaTokenizer"}},
    {is_unigram, {"T5Tokenizer", "XLMRobertaTokenizer", "DebertaV2Tokenizer"}}};

void set_class(Json& config, const Json& tokenizer) {
  const auto reader = std::ranges::find_if(readers, [&](const Reader& r) { return r.reads(tokenizer); });
  if (reader == std::end(readers)) {
    logging::warning("tokenizer.json: ONNX Runtime GenAI can't read a tokenizer of this kind ({}); it will generate from ids only", model_type(tokenizer));
    return;
  }
  const auto* known = config.find("tokenizer_class");
  const auto is_known = [&](std::string_view name) { return known && (*known == Json(name) || *known == Json(std::string(name) + "Fast")); };
  if (!std::ranges::any_of(reader->classes, is_known)) config.set("tokenizer_class", reader->classes.front());
}

// A template as text, or in a list of named ones that with the name "default".
const Json* default_template(const Json* value) {
  if (!value || value->is_string()) return value;
  if (!value->is_array()) return nullptr;
  for (const auto& entry : value->as_array()) {
    const auto* name = entry.find("name");
    if (name && *name == Json("default")) return default_template(entry.find("template"));
  }
  return nullptr;
}

void set_chat_template(Json& config, const Companions& files) {
  const auto* own = config.find("chat_template");
  const auto* with_processor = files.json("chat_template.json");
  Json found;
  if (const auto text = files.text("chat_template.jinja")) found = *text;
  else if (const auto* value = default_template(own)) found = *value;
  else if (const auto* other = with_processor ? default_template(with_processor->find("chat_template")) : nullptr) found = *other;
  if (found.is_string()) return config.set("chat_template", std::move(found));
  if (own && !own->is_null()) {
    logging::warning("tokenizer_config.json: none of the chat templates is called 'default'; ONNX Runtime GenAI gets none");
    config.erase("chat_template");
  }
}

}  // namespace

std::optional<Json> genai_tokenizer_config(const Companions& files) {
  const auto* tokenizer = files.json("tokenizer.json");
  const auto* original = files.json("tokenizer_config.json");
  if (!tokenizer) {
    if (original || files.has("tokenizer.model"))
      logging::warning("ONNX Runtime GenAI reads text with tokenizer.json, which the model doesn't have; it will generate from ids only");
    return std::nullopt;
  }
  Json config = original ? *original : Json(Json::Object{});
  set_class(config, *tokenizer);
  set_chat_template(config, files);
  if (original && config == *original) return std::nullopt;
  return config;
}

}  // namespace mobius::package

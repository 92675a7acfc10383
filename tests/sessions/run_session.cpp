// Runs a model in ONNX Runtime for another program, which writes requests and reads results through pipes.
//
//   run_session MODEL [--library FILE] [--provider NAME] [--provider-option KEY=VALUE]... [--config KEY=VALUE]...
//
// It first writes a line of JSON, {"version", "inputs": [{"name", "dtype", "shape"}], "outputs": [name]}. A request is a line of JSON,
// [{"name", "dtype", "dims"}], and the bytes of these tensors one after the other; so is its result. Whatever fails is answered by
// {"error": text}. It ends when there is no request more.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/runtime/onnxruntime.hpp"

namespace mobius {
namespace {

using runtime::Tensor;

void write(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

std::pair<std::string, std::string> split_at_equals(const std::string& text) {
  const auto at = text.find('=');
  if (at == std::string::npos) fail(ErrorKind::invalid_argument, "'{}' is not KEY=VALUE", text);
  return {text.substr(0, at), text.substr(at + 1)};
}

struct Arguments {
  std::string model = {}, library = {};
  runtime::SessionOptions options = {};
};

Arguments parse(int count, char** words) {
  if (count < 2) fail(ErrorKind::invalid_argument, "the model is missing");
  Arguments arguments{.model = words[1]};
  arguments.options.threads = 1;
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string option = words[i], value = words[i + 1];
    if (option == "--library") arguments.library = value;
    else if (option == "--provider") arguments.options.provider = value;
    else if (option == "--provider-option") arguments.options.provider_options.push_back(split_at_equals(value));
    else if (option == "--config") arguments.options.config_entries.push_back(split_at_equals(value));
    else fail(ErrorKind::invalid_argument, "unknown option '{}'", option);
  }
  return arguments;
}

void introduce(const runtime::Runtime& runtime, const runtime::Session& session) {
  Json inputs = Json::Array{}, outputs = Json::Array{};
  for (const auto& port : session.inputs()) {
    Json shape = Json::Array{};
    for (const auto& dim : port.shape) shape.push_back(dim.is_static() ? Json(dim.value()) : dim.is_unknown() ? Json() : Json(dim.to_string()));
    inputs.push_back(Json::Object{{"name", port.name}, {"dtype", ir::text_name(port.dtype)}, {"shape", std::move(shape)}});
  }
  for (const auto& port : session.outputs()) outputs.push_back(port.name);
  write(Json(Json::Object{{"version", runtime.version()}, {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}}).dump() + "\n");
}

std::map<std::string, Tensor> read_tensors(const std::string& header) {
  std::map<std::string, Tensor> tensors;
  const auto list = Json::parse(header);
  for (const auto& entry : list.as_array()) {
    const auto dtype = ir::data_type_from_text(entry.at("dtype").as_string());
    if (!dtype) fail(ErrorKind::invalid_argument, "unknown dtype {}", entry.at("dtype").as_string());
    Tensor tensor{*dtype, {}, {}};
    for (const auto& dim : entry.at("dims").as_array()) tensor.dims.push_back(dim.as_int());
    tensor.bytes.resize(ir::byte_size(*dtype, static_cast<std::uint64_t>(ir::element_count(tensor.dims))));
    std::cin.read(reinterpret_cast<char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
    if (!std::cin) fail(ErrorKind::corrupt_file, "the request ends too early");
    tensors.emplace(entry.at("name").as_string(), std::move(tensor));
  }
  return tensors;
}

void write_tensors(const std::map<std::string, Tensor>& tensors) {
  Json header = Json::Array{};
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    Json dims = Json::Array{};
    for (const auto dim : tensor.dims) dims.push_back(dim);
    header.push_back(Json::Object{{"name", name}, {"dtype", ir::text_name(tensor.dtype)}, {"dims", std::move(dims)}});
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  write(header.dump() + "\n" + bytes);
}

int serve(int count, char** words) try {
  const auto arguments = parse(count, words);
  const auto library = runtime::Runtime::open(arguments.library);
  const runtime::Session session(library, arguments.model, arguments.options);
  introduce(*library, session);
  for (std::string line; std::getline(std::cin, line);) write_tensors(session.run(read_tensors(line)));
  return 0;
} catch (const std::exception& e) {
  write(Json(Json::Object{{"error", e.what()}}).dump() + "\n");
  return 1;
}

}  // namespace
}  // namespace mobius

int main(int count, char** words) {
  const int status = mobius::serve(count, words);
  std::fflush(stdout);
  // Some providers' libraries crash while they are taken down; what is to be known was said.
  std::_Exit(status);
}

// The listed sets: what --ep, --dtype, --task and --as take.
#pragma once
#include <string>
#include <vector>

namespace mobius::cli {

std::vector<std::string> ep_names();
std::vector<std::string> dtype_names();  // "f32", "f16", "bf16"
std::vector<std::string> task_names();   // of all families, sorted
std::vector<std::string> model_types();  // of all families, sorted
bool is_dtype(const std::string& text);  // one of dtype_names, in any usual spelling

}  // namespace mobius::cli

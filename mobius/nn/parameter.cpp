// Parameters as recipes over placeholders.
#include "mobius/nn/parameter.hpp"

namespace mobius::nn {
namespace {

std::vector<std::string> all_names(std::string first, std::vector<std::string> others) {
  others.insert(others.begin(), std::move(first));
  return others;
}

}  // namespace

Parameter::Parameter(const Scope& at, ir::Dims dims, std::vector<std::string> other_names)
    : name_(at.path()), data_(std::make_shared<ir::Placeholder>(all_names(at.path(), std::move(other_names)), at.dtype(), std::move(dims))) {}

Parameter Parameter::rows(std::string name, std::int64_t begin, std::int64_t end) const { return {std::move(name), ir::slice(data_, 0, begin, end)}; }

Parameter Parameter::plus(double offset) const {
  const auto* leaf = dynamic_cast<const ir::Placeholder*>(data_.get());
  if (!leaf) return {name_, ir::affine(data_, 1, offset)};
  const auto exact = std::make_shared<ir::Placeholder>(leaf->names(), ir::DataType::float32, leaf->dims());
  return {name_, ir::cast(ir::affine(exact, 1, offset), data_->dtype())};
}

}  // namespace mobius::nn

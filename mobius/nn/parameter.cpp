// Parameters as recipes over placeholders.
#include "mobius/nn/parameter.hpp"

namespace mobius::nn {
namespace {

std::vector<std::string> all_names(const Scope& at, std::vector<std::string> others) {
  others.insert(others.begin(), at.path());
  if (at.short_path() != at.path()) others.push_back(at.short_path());
  return others;
}

ir::Dims dims_of_blocks(ir::Dims dims, std::int64_t size) {
  dims.insert(dims.begin(), dims.at(0) / size);
  dims.at(1) = size;
  return dims;
}

}  // namespace

Parameter::Parameter(const Scope& at, ir::Dims dims, std::vector<std::string> other_names)
    : name_(at.path()), data_(std::make_shared<ir::Placeholder>(all_names(at, std::move(other_names)), at.dtype(), std::move(dims))) {}

Parameter Parameter::rows(std::string name, std::int64_t begin, std::int64_t end) const { return {std::move(name), ir::slice(data_, 0, begin, end)}; }

Parameter Parameter::columns(std::string name, std::int64_t begin, std::int64_t end) const { return {std::move(name), ir::slice(data_, 1, begin, end)}; }

Parameter Parameter::blocks(std::string name, std::int64_t size, std::vector<std::int64_t> order) const {
  auto dims = dims_of_blocks(this->dims(), size);
  auto taken = ir::take(ir::reshape(data_, dims), 0, std::move(order));
  dims = taken->dims();
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  return {std::move(name), ir::reshape(std::move(taken), std::move(dims))};
}

Parameter Parameter::affine(double factor, double offset) const {
  const auto* leaf = dynamic_cast<const ir::Placeholder*>(data_.get());
  if (!leaf) return {name_, ir::affine(data_, factor, offset)};
  const auto exact = std::make_shared<ir::Placeholder>(leaf->names(), ir::DataType::float32, leaf->dims());
  return {name_, ir::cast(ir::affine(exact, factor, offset), data_->dtype())};
}

}  // namespace mobius::nn

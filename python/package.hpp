// Packages between Python and the library: Python holds the components as models of their own, and the rest as a Package.
#pragma once
#include <utility>
#include <vector>

#include "mobius/package/package.hpp"
#include "python/bindings.hpp"

namespace mobius::python {

using Components = std::vector<std::pair<std::string, ModelPtr>>;

// A package without its components.
struct Package {
  ModelPackage rest;
};

// Takes the components out.
std::pair<std::shared_ptr<Package>, Components> split(ModelPackage package);

// Puts the components into a package for the life of this object; it needs Python's lock at both ends. Errors: a model is in use.
class Assembled {
 public:
  Assembled(const Package& package, const Components& components);
  ~Assembled();
  Assembled(const Assembled&) = delete;
  Assembled& operator=(const Assembled&) = delete;
  const ModelPackage& package() const { return package_; }

 private:
  ModelPackage package_;
  std::vector<std::unique_ptr<InUse>> in_use_;
  std::vector<ModelPtr> models_;
};

}  // namespace mobius::python

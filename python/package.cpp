// Writing and reading packages.
#include "python/package.hpp"

#include <algorithm>

#include "mobius/weights/bind.hpp"

namespace mobius::python {
namespace {

// A graph that waits for all of its weights is written without.
bool has_weights(const ModelPackage& package) {
  bool waits = false, has = false;
  for (const auto& component : package.components())
    for (const auto* p : weights::placeholders(component.model)) (p->is_bound() ? has : waits) = true;
  return has || !waits;
}

SaveOptions save_options(const py::dict& d) {
  SaveOptions o;
  o.external_data = d["external_data"].cast<std::string>();
  o.max_shard_size = d["max_shard_size"].cast<std::uint64_t>();
  o.runtime = d["runtime"].cast<std::string>();
  o.context_length = d["context_length"].cast<std::int64_t>();
  o.force = d["force"].cast<bool>();
  o.progress = progress_of(d["progress"]);
  return o;
}

using Written = std::vector<std::pair<std::string, std::uint64_t>>;

Written names_and_sizes(const std::vector<WrittenFile>& files) {
  Written out;
  for (const auto& f : files) out.emplace_back(f.name, f.size);
  return out;
}

Written save(const Package& package, const Components& components, const std::string& folder, const py::dict& options) {
  const Assembled all(package, components);
  const auto o = save_options(options);
  const py::gil_scoped_release unlocked;
  return names_and_sizes(all.package().save(folder, o));
}

Written plan(const Package& package, const Components& components, const py::dict& options) {
  const Assembled all(package, components);
  return names_and_sizes(all.package().plan(save_options(options)));
}

// Also as the file that is saved.
void set_config(Package& p, const std::string& json) {
  constexpr const char* name = "config.json";
  p.rest.config = Json::parse(json);
  std::erase_if(p.rest.files(), [&](const PackageFile& file) { return file.name == name; });
  if (!p.rest.config.is_null()) p.rest.files().insert(p.rest.files().begin(), {name, p.rest.config.dump(2) + "\n"});
}

}  // namespace

std::pair<std::shared_ptr<Package>, Components> split(ModelPackage package) {
  Components components;
  for (auto& c : package.components()) {
    auto model = std::make_shared<Model>();
    model->role = c.role;
    model->model = std::move(c.model);
    components.emplace_back(c.name, std::move(model));
  }
  package.components().clear();
  return {std::make_shared<Package>(Package{std::move(package)}), std::move(components)};
}

Assembled::Assembled(const Package& package, const Components& components) {
  package_.config = package.rest.config;
  package_.files() = package.rest.files();
  package_.sources = package.rest.sources;
  package_.described = package.rest.described;
  for (const auto& [name, model] : components) {
    if (std::ranges::find(models_, model) != models_.end()) fail(ErrorKind::invalid_argument, "'{}' is the same model as another component; clone it", name);
    in_use_.push_back(std::make_unique<InUse>(*model));
    models_.push_back(model);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) package_.components().push_back({components[i].first, models_[i]->role, std::move(models_[i]->model)});
  package_.has_weights = has_weights(package_);
  for (auto& c : package_.components()) {
    if (package_.has_weights) c.model.metadata.erase("mobius.weights");
    else c.model.metadata["mobius.weights"] = "none";
  }
}

Assembled::~Assembled() {
  for (std::size_t i = 0; i < package_.components().size(); ++i) models_[i]->model = std::move(package_.components()[i].model);
}

void bind_package(py::module_& m) {
  py::class_<Package, std::shared_ptr<Package>>(m, "Package")
      .def(py::init<>())
      .def_property(
          "config", [](const Package& p) { return p.rest.config.dump(); }, set_config)
      .def_property_readonly("files",
                             [](const Package& p) {
                               std::vector<std::string> names;
                               for (const auto& f : p.rest.files()) names.push_back(f.name);
                               return names;
                             })
      .def("read_file",
           [](const Package& p, const std::string& name) {
             for (const auto& f : p.rest.files()) {
               if (f.name != name) continue;
               const auto* text = std::get_if<std::string>(&f.content);
               return py::bytes(text ? *text : read_text_file(std::get<fs::path>(f.content)));
             }
             fail(ErrorKind::not_found, "the package has no file {}", name);
           })
      .def("copy",
           [](const Package& p) {
             auto out = std::make_shared<Package>();
             out->rest.config = p.rest.config;
             out->rest.files() = p.rest.files();
             out->rest.sources = p.rest.sources;
             out->rest.described = p.rest.described;
             return out;
           })
      .def("save", save)
      .def("plan", plan)
      .def_static("load", [](const std::string& folder) {
        const py::gil_scoped_release unlocked;
        return split(load_package(folder));
      });
  m.def("runtime_names", runtime_names);
}

}  // namespace mobius::python

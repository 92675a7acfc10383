// The build of a source that was found already.
//
//   build_source(read_source("models/mine", ""), {.execution_provider = "cuda"});       // what build("models/mine", ...) does
//   build_source(source_of_package(folder), {.load_weights = false});                    // the graphs of a package, once more
#pragma once
#include "mobius/package/build.hpp"
#include "mobius/package/source.hpp"

namespace mobius::package {

ModelPackage build_source(Source source, const BuildOptions& options);  // errors: those of build

}  // namespace mobius::package

// The part of ONNX Runtime's C API that runtime/ calls, declared by position: the wheel ships the library without headers.
// The table only ever grows at its end, so a position holds for every version from the one that introduced it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace mobius::runtime::ort {

// The newest member used here came with this version of the API.
inline constexpr std::uint32_t api_version = 17;
inline constexpr const char* least_version = "1.17";

struct Allocator;
struct CudaOptions;
struct Environment;
struct MemoryInfo;
struct RunOptions;
struct Session;
struct SessionOptions;
struct Status;  // nullptr: success
struct TensorInfo;
struct TypeInfo;
struct Value;

using PathChar = std::filesystem::path::value_type;

enum ErrorCode { code_invalid_argument = 2, code_no_such_file = 3, code_invalid_protobuf = 7, code_not_implemented = 9, code_invalid_graph = 10 };
enum LogLevel { log_fatal = 4 };
enum AllocatorType { device_allocator = 0 };
enum MemoryType { default_memory = 0 };
enum ValueKind { kind_tensor = 1 };

// Names are the field's own; a comment gives the position of the first member of each run, the assertions below prove them.
struct Api {
  void* create_status;  // 0
  int (*GetErrorCode)(const Status*);
  const char* (*GetErrorMessage)(const Status*);
  Status* (*CreateEnv)(int log_level, const char* log_id, Environment** out);
  void* skipped_4[2];
  Status* (*DisableTelemetryEvents)(const Environment*);  // 6
  Status* (*CreateSession)(const Environment*, const PathChar* path, const SessionOptions*, Session** out);
  Status* (*CreateSessionFromArray)(const Environment*, const void* model, std::size_t size, const SessionOptions*, Session** out);
  Status* (*Run)(Session*, const RunOptions*, const char* const* input_names, const Value* const* inputs, std::size_t input_count,
                 const char* const* output_names, std::size_t output_count, Value** outputs);
  Status* (*CreateSessionOptions)(SessionOptions** out);  // 10
  void* skipped_11[12];
  Status* (*SetSessionGraphOptimizationLevel)(SessionOptions*, int level);  // 23
  Status* (*SetIntraOpNumThreads)(SessionOptions*, int threads);
  void* skipped_25[5];
  Status* (*SessionGetInputCount)(const Session*, std::size_t* out);  // 30
  Status* (*SessionGetOutputCount)(const Session*, std::size_t* out);
  void* skipped_32;
  Status* (*SessionGetInputTypeInfo)(const Session*, std::size_t index, TypeInfo** out);  // 33
  Status* (*SessionGetOutputTypeInfo)(const Session*, std::size_t index, TypeInfo** out);
  void* skipped_35;
  Status* (*SessionGetInputName)(const Session*, std::size_t index, Allocator*, char** out);  // 36
  Status* (*SessionGetOutputName)(const Session*, std::size_t index, Allocator*, char** out);
  void* skipped_38[11];
  Status* (*CreateTensorWithDataAsOrtValue)(const MemoryInfo*, void* data, std::size_t size, const std::int64_t* dims, std::size_t rank, int dtype,
                                            Value** out);  // 49
  void* skipped_50;
  Status* (*GetTensorMutableData)(Value*, void** out);  // 51
  void* skipped_52[3];
  Status* (*CastTypeInfoToTensorInfo)(const TypeInfo*, const TensorInfo** out);  // 55
  Status* (*GetOnnxTypeFromTypeInfo)(const TypeInfo*, int* out);
  void* skipped_57[3];
  Status* (*GetTensorElementType)(const TensorInfo*, int* out);  // 60
  Status* (*GetDimensionsCount)(const TensorInfo*, std::size_t* out);
  Status* (*GetDimensions)(const TensorInfo*, std::int64_t* dims, std::size_t rank);
  Status* (*GetSymbolicDimensions)(const TensorInfo*, const char** names, std::size_t rank);
  void* skipped_64;
  Status* (*GetTensorTypeAndShape)(const Value*, TensorInfo** out);  // 65
  void* skipped_66;
  Status* (*GetValueType)(const Value*, int* out);  // 67
  void* skipped_68;
  Status* (*CreateCpuMemoryInfo)(int allocator_type, int memory_type, MemoryInfo** out);  // 69
  void* skipped_70[6];
  Status* (*AllocatorFree)(Allocator*, void*);  // 76
  void* skipped_77;
  Status* (*GetAllocatorWithDefaultOptions)(Allocator** out);  // 78
  void* skipped_79[13];
  void (*ReleaseEnv)(Environment*);  // 92
  void (*ReleaseStatus)(Status*);
  void (*ReleaseMemoryInfo)(MemoryInfo*);
  void (*ReleaseSession)(Session*);
  void (*ReleaseValue)(Value*);
  void (*ReleaseRunOptions)(RunOptions*);
  void (*ReleaseTypeInfo)(TypeInfo*);
  void (*ReleaseTensorTypeAndShapeInfo)(TensorInfo*);
  void (*ReleaseSessionOptions)(SessionOptions*);
  void* skipped_101[24];
  Status* (*GetAvailableProviders)(char*** out, int* count);  // 125
  Status* (*ReleaseAvailableProviders)(char** providers, int count);
  void* skipped_127[3];
  Status* (*AddSessionConfigEntry)(SessionOptions*, const char* key, const char* value);  // 130
  void* skipped_131[61];
  Status* (*HasValue)(const Value*, int* out);  // 192
  void* skipped_193[11];
  Status* (*SessionOptionsAppendExecutionProvider_CUDA_V2)(SessionOptions*, const CudaOptions*);  // 204
  Status* (*CreateCUDAProviderOptions)(CudaOptions** out);
  Status* (*UpdateCUDAProviderOptions)(CudaOptions*, const char* const* keys, const char* const* values, std::size_t count);
  void* skipped_207;
  void (*ReleaseCUDAProviderOptions)(CudaOptions*);  // 208
  void* skipped_209[7];
  Status* (*SessionOptionsAppendExecutionProvider)(SessionOptions*, const char* provider, const char* const* keys, const char* const* values,
                                                   std::size_t count);  // 216
};

constexpr std::size_t position(std::size_t offset) { return offset / sizeof(void*); }
static_assert(position(offsetof(Api, CreateEnv)) == 3 && position(offsetof(Api, DisableTelemetryEvents)) == 6);
static_assert(position(offsetof(Api, Run)) == 9 && position(offsetof(Api, CreateSessionOptions)) == 10);
static_assert(position(offsetof(Api, SetIntraOpNumThreads)) == 24 && position(offsetof(Api, SessionGetOutputCount)) == 31);
static_assert(position(offsetof(Api, SessionGetOutputTypeInfo)) == 34 && position(offsetof(Api, SessionGetOutputName)) == 37);
static_assert(position(offsetof(Api, CreateTensorWithDataAsOrtValue)) == 49 && position(offsetof(Api, GetTensorMutableData)) == 51);
static_assert(position(offsetof(Api, GetOnnxTypeFromTypeInfo)) == 56 && position(offsetof(Api, GetSymbolicDimensions)) == 63);
static_assert(position(offsetof(Api, GetTensorTypeAndShape)) == 65 && position(offsetof(Api, GetValueType)) == 67);
static_assert(position(offsetof(Api, CreateCpuMemoryInfo)) == 69 && position(offsetof(Api, AllocatorFree)) == 76);
static_assert(position(offsetof(Api, GetAllocatorWithDefaultOptions)) == 78 && position(offsetof(Api, ReleaseSessionOptions)) == 100);
static_assert(position(offsetof(Api, ReleaseAvailableProviders)) == 126 && position(offsetof(Api, AddSessionConfigEntry)) == 130);
static_assert(position(offsetof(Api, HasValue)) == 192 && position(offsetof(Api, ReleaseCUDAProviderOptions)) == 208);
static_assert(position(offsetof(Api, SessionOptionsAppendExecutionProvider)) == 216);

// What the library's one exported function, OrtGetApiBase, returns.
struct ApiBase {
  const Api* (*GetApi)(std::uint32_t version);  // nullptr when the library is older than `version`
  const char* (*GetVersionString)();
};
using GetApiBase = const ApiBase*();

}  // namespace mobius::runtime::ort

// Runs a model in ONNX Runtime Web's WebAssembly backend for another program: the requests and results of run_session.cpp.
//
//   node run_session.mjs MODEL
//
// onnxruntime-web is looked up from the folder that MOBIUS_NODE_MODULES names.
import { readFileSync, readSync, writeSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";

const ARRAYS = { float: Float32Array, float16: Uint16Array, double: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };
const WEB_NAMES = { float: "float32", double: "float64" }; // where they are not ONNX's
const webName = (dtype) => WEB_NAMES[dtype] ?? dtype;
const onnxName = (type) => Object.keys(WEB_NAMES).find((name) => WEB_NAMES[name] === type) ?? type;

function write(buffer) {
  for (let at = 0; at < buffer.length; ) {
    try {
      at += writeSync(1, buffer, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}
const writeLine = (value) => write(Buffer.from(JSON.stringify(value) + "\n"));

function readExactly(count) {
  const buffer = Buffer.alloc(count);
  for (let at = 0; at < count; ) {
    const got = readSync(0, buffer, at, count - at);
    if (got === 0) throw new Error("the request ends too early");
    at += got;
  }
  return buffer;
}

// null: there is none more
function readLine() {
  const bytes = [];
  const one = Buffer.alloc(1);
  while (readSync(0, one, 0, 1) === 1) {
    if (one[0] === 10) return Buffer.from(bytes).toString();
    bytes.push(one[0]);
  }
  return null;
}

async function serve(model) {
  const ort = createRequire(process.env.MOBIUS_NODE_MODULES + "/")("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  const data = model + ".data";
  const externalData = existsSync(data) ? [{ path: basename(data), data: new Uint8Array(readFileSync(data)) }] : [];
  const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(model)), { executionProviders: ["wasm"], externalData });
  const inputs = session.inputMetadata.map((port) => ({ name: port.name, dtype: onnxName(port.type), shape: port.shape }));
  writeLine({ version: ort.env.versions.web, inputs, outputs: session.outputNames });

  for (let line = readLine(); line !== null; line = readLine()) {
    const feeds = {};
    for (const { name, dtype, dims } of JSON.parse(line)) {
      const array = new ARRAYS[dtype](dims.reduce((product, dim) => product * dim, 1));
      new Uint8Array(array.buffer).set(readExactly(array.byteLength));
      feeds[name] = new ort.Tensor(webName(dtype), array, dims);
    }
    const results = Object.entries(await session.run(feeds));
    writeLine(results.map(([name, tensor]) => ({ name, dtype: onnxName(tensor.type), dims: tensor.dims })));
    for (const [, { data }] of results) write(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  }
}

try {
  await serve(process.argv[2]);
} catch (error) {
  writeLine({ error: String(error?.message ?? error) });
  process.exitCode = 1;
}

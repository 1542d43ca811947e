// Graphs of an out-of-tree device whose steps are done by a function from outside (Python's ctypes).
#include <ATen/core/GraphImplInterface.h>

namespace {

// Does a step of the graph with this number, and says by `fail` what went wrong.
using Function = void (*)(int64_t graph, const char* step);
Function function = nullptr;
thread_local std::string failure;  // of this thread's last step
thread_local bool numerical;       // that of a factorization, which has an error class of its own

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs&) { step("new"); }
  ~Graph() override {
    if (function != nullptr) function(number_, "delete");
  }
  void capture_begin(at::MempoolId_t, at::GraphCaptureMode) override { step("capture_begin"); }
  void capture_end() override { step("capture_end"); }
  void instantiate() override {}
  void replay() override { step("replay"); }
  void reset() override { step("reset"); }
  at::MempoolId_t pool() const override { return {0, static_cast<uint64_t>(number_)}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {}

 private:
  void step(const char* name) {
    TORCH_CHECK(function != nullptr, "nobody does the steps of this graph");
    failure.clear();
    function(number_, name);
    TORCH_CHECK_LINALG(failure.empty() || !numerical, failure);
    TORCH_CHECK(failure.empty(), failure);
  }
  static inline int64_t count_ = 0;
  int64_t number_ = ++count_;
};

}  // namespace

extern "C" void fail(const char* message, bool in_factorization) {
  failure = message;
  numerical = in_factorization;
}

// Take the function; the first time, register the graphs with PyTorch.
extern "C" void serve(Function given) {
  static bool registered = false;
  function = given;
  if (registered || given == nullptr) return;
  registered = true;
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/false),
      [](const at::GraphImplArgs& args) { return std::make_unique<Graph>(args); });
}

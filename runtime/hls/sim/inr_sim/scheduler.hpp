// SPDX-License-Identifier: Apache-2.0
//
// Processes as stackful fibers on one thread.
//
// A process runs until it reads an empty FIFO or writes a full one; then the next one that can
// run does. Processes are deterministic and each FIFO has one writer and one reader, so whether
// the network finishes does not depend on this order: when no fiber can run and some have not
// finished, the design deadlocks in every execution with these depths.
#ifndef INR_SIM_SCHEDULER_HPP
#define INR_SIM_SCHEDULER_HPP

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline.hpp"

// glibc's fortified longjmp refuses a jump to another stack as an overflow; this names the plain
// function whatever _FORTIFY_SOURCE is.
extern "C" void inr_sim_jump(struct __jmp_buf_tag*, int) __asm__("_longjmp")
    __attribute__((noreturn));

namespace inr {
namespace sim {

class region;

enum exit_status { status_deadlock = 3, status_misuse = 4 };

enum class waiting { nothing, token, space, children };

// One fiber.
struct process {
  std::string name;
  process* parent = nullptr;  // the process whose body opened the region this one belongs to
  region* home = nullptr;
  waiting state = waiting::nothing;
  fifo* blocked_on = nullptr;
  bool started = false;
  bool finished = false;
  std::uint64_t overflows = 0;
  pipeline timing{this};
  // The last search for a cycle that came through here: through what the process itself waits for,
  // and through what holds its finished iterations back.
  mutable std::uint64_t visits[2] = {0, 0};
  // Addresses in the call's closure, among them those of the FIFOs that it names.
  std::vector<const void*> mentions;

  virtual ~process() {
    if (guard_ != nullptr) munmap(guard_, guard_bytes + stack_bytes_);
  }
  virtual void body() = 0;

  jmp_buf resume_point;
  ucontext_t context;

  // Kernels keep their buffers on the stack, so it is large; only touched pages cost memory. Below
  // it is a range that nobody may touch, wide enough that a large buffer does not reach over it:
  // running over the end faults instead of corrupting another stack.
  void make_stack(std::size_t bytes) {
    const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
    stack_bytes_ = (bytes + page - 1) / page * page;
    void* memory = mmap(nullptr, guard_bytes + stack_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "simulation: no memory for the stack of process '%s' (%zu bytes; "
                   "INR_SIM_STACK_KB sets it)\n", name.c_str(), stack_bytes_);
      std::exit(status_misuse);
    }
    guard_ = static_cast<char*>(memory);
    mprotect(guard_, guard_bytes, PROT_NONE);
    getcontext(&context);
    context.uc_stack.ss_sp = guard_ + guard_bytes;
    context.uc_stack.ss_size = stack_bytes_;
    context.uc_link = nullptr;
  }

  // Whether an access to `address` runs over the end of this stack.
  bool overruns(const void* address) const {
    const char* at = static_cast<const char*>(address);
    return guard_ != nullptr && at >= guard_ && at < guard_ + guard_bytes;
  }

 private:
  static const std::size_t guard_bytes = std::size_t(64) << 20;
  char* guard_ = nullptr;
  std::size_t stack_bytes_ = 0;
};

template <class Body>
struct process_of : process {
  explicit process_of(const Body& call) : call_(call) {
    // A closure that captures by reference holds one pointer for each variable it names. Knowing
    // them names the other end of a FIFO even before that end has touched it.
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&call_);
    for (std::size_t at = 0; at + sizeof(void*) <= sizeof(Body); at += sizeof(void*)) {
      const void* address;
      std::memcpy(&address, bytes + at, sizeof address);
      mentions.push_back(address);
    }
  }
  void body() override { call_(); }

 private:
  Body call_;
};

// What the report says of a FIFO or a process, over all runs of its region.
struct fifo_record {
  int element_bits = 0;
  std::uint64_t declared_depth = 0, final_depth = 0, maximum_occupancy = 0, tokens = 0;
  std::vector<std::uint64_t> written_at, read_at;  // of the last run, in a run that traces
};

struct process_record {
  std::uint64_t overflows = 0, cycles = 0;
};

struct region_record {
  std::string name;
  std::uint64_t runs = 0;
  std::uint64_t cycles = 0;  // of the longest run
  double seconds = 0;
  std::vector<std::pair<std::string, fifo_record>> fifos;  // in the order of their declaration
  std::vector<std::pair<std::string, process_record>> processes;
};

// Something that cannot go on: a process, or iterations of it that cannot leave its pipeline.
struct blockage {
  const process* task;
  bool leaving;

  waiting state() const { return leaving ? waiting::space : task->state; }
  fifo* on() const { return leaving ? task->timing.held_by() : task->blocked_on; }
  std::uint64_t& visit() const { return task->visits[leaving ? 1 : 0]; }
  bool operator==(const blockage& other) const {
    return task == other.task && leaving == other.leaving;
  }
};

// State of the simulation. One for the program: translation units share it.
class scheduler {
 public:
  static scheduler& instance() {
    // Never destroyed: FIFOs of static storage may outlive any destructor.
    static scheduler* the_one = new scheduler;
    return *the_one;
  }

  bool grow() const { return grow_; }
  bool tracing() const { return tracing_; }
  // The depth that a run has for a FIFO, 0 where it keeps the declared one.
  int depth_of(const std::string& name) {
    const std::map<std::string, int>::const_iterator found = depths_.find(name);
    if (found == depths_.end()) return 0;
    given_.insert(name);
    return found->second;
  }
  std::size_t stack_bytes() const { return stack_bytes_; }

  void add(process* task) {
    alive_.push_back(task);
    ready_.push_back(task);
  }

  void wake(process* task) {
    task->state = waiting::nothing;
    task->blocked_on = nullptr;
    ready_.push_back(task);
  }

  // Suspends the running process until somebody wakes it.
  void block(waiting state, fifo* on);

  // Runs every process; returns when all have finished. Called from outside any process.
  void run();

  // The running fiber ended.
  void finish();

  void register_fifo(fifo* which) { fifos_.push_back(which); }
  void forget_fifo(fifo* which) {
    for (std::size_t i = fifos_.size(); i-- > 0;) {
      if (fifos_[i] != which) continue;
      fifos_.erase(fifos_.begin() + std::ptrdiff_t(i));
      return;
    }
  }
  // FIFOs that exist, in the order of their declaration.
  const std::vector<fifo*>& fifos() const { return fifos_; }
  std::uint64_t next_fifo_number() { return fifo_count_++; }

  void record(const region& which, double seconds);
  void count_outside_overflow() { ++outside_overflows_; }

  // Writes the report as far as it goes and ends the program.
  [[noreturn]] void fail(exit_status status, const char* verdict);

 private:
  scheduler() {
    grow_ = flag("INR_SIM_GROW");
    tracing_ = flag("INR_SIM_TRACE");
    counting_cycles() = tracing_ || flag("INR_SIM_CYCLES");
    const char* depths = std::getenv("INR_SIM_DEPTHS");
    if (depths != nullptr) read_depths(depths);
    const char* kilobytes = std::getenv("INR_SIM_STACK_KB");
    const long wanted = kilobytes == nullptr ? 0 : std::strtol(kilobytes, nullptr, 10);
    stack_bytes_ = std::size_t(wanted > 0 ? wanted : 16384) * 1024;
    const char* file = std::getenv("INR_SIM_REPORT");
    if (file != nullptr) report_ = file;
    std::atexit([] { scheduler::instance().conclude("finished"); });
  }

  // "name=depth,name=depth"
  void read_depths(const std::string& text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::size_t sign = text.find('=', at);
      const int depth = sign < end ? std::atoi(text.c_str() + sign + 1) : 0;
      if (depth < 1) {
        std::fprintf(stderr, "simulation: INR_SIM_DEPTHS has '%s', which is not NAME=DEPTH\n",
                     text.substr(at, end - at).c_str());
        std::exit(status_misuse);
      }
      depths_[text.substr(at, sign - at)] = depth;
      at = end + 1;
    }
  }

  static bool flag(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
  }

  static void enter();
  static void on_fault(int signal, siginfo_t* what, void*);
  void watch_stacks();
  [[noreturn]] void resume(process* next);
  void leave(jmp_buf& here, process* next);
  process* next_ready();

  const process* waits_for(const blockage& blocked) const;
  blockage behind(const blockage& blocked) const;
  std::vector<blockage> blockages() const;
  std::vector<blockage> wait_cycle();
  std::vector<blockage> unread_writers() const;
  bool relieve(const std::vector<blockage>& cycle);
  void explain(const blockage& blocked) const;
  void explain_deadlock(const std::vector<blockage>& cycle) const;
  void conclude(const char* verdict) const;
  void write_report(const char* verdict) const;

  bool grow_ = false;
  bool tracing_ = false;
  std::map<std::string, int> depths_;  // those that INR_SIM_DEPTHS gives
  std::set<std::string> given_;        // and which of them a FIFO had
  std::size_t stack_bytes_ = 0;
  std::string report_;
  jmp_buf outside_;
  std::deque<process*> ready_;
  std::vector<process*> alive_;
  std::vector<fifo*> fifos_;
  std::uint64_t fifo_count_ = 0;
  bool watching_ = false;
  // Searches for a cycle mark what they pass with numbers that only grow.
  std::uint64_t visits_ = 0;
  std::uint64_t first_visit_of_search_ = 1;
  std::uint64_t outside_overflows_ = 0;
  std::vector<region_record> records_;
};

// Whether `task` is `ancestor` or runs in a region that it opened.
inline bool descends(const process* task, const process* ancestor) {
  while (task != nullptr && task != ancestor) task = task->parent;
  return task != nullptr;
}

// The process that runs now; null outside a region.
template <class Dummy>
struct running_process {
  static process* value;
};
template <class Dummy>
process* running_process<Dummy>::value = nullptr;

inline process*& running() { return running_process<void>::value; }

}  // namespace sim
}  // namespace inr

#include "fifo.hpp"

namespace inr {
namespace sim {

// A dataflow region: processes are added, and its destructor runs them all to their end. Inside
// a process it is a part of that process, which waits for it.
class region {
 public:
  explicit region(const char* name) : name_(name), parent_(running()) {}
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  ~region() { run(); }

  template <class Body>
  void add(const char* name, const Body& call) {
    std::unique_ptr<process> task(new process_of<Body>(call));
    task->name = parent_ == nullptr ? std::string(name) : parent_->name + "/" + name;
    task->parent = parent_;
    task->home = this;
    task->make_stack(scheduler::instance().stack_bytes());
    processes_.push_back(std::move(task));
  }

  const std::string& name() const { return name_; }
  process* parent() const { return parent_; }
  const std::vector<std::unique_ptr<process>>& processes() const { return processes_; }

  // Whether `task` is one of this region's or part of one.
  bool owns(const process* task) const {
    while (task != nullptr && task->home != this) task = task->parent;
    return task != nullptr;
  }
  bool uses(const fifo& which) const { return owns(which.writer()) || owns(which.reader()); }

  // Notes that a process ended; wakes the process around them after the last.
  void one_finished() {
    if (--unfinished_ == 0 && parent_ != nullptr) scheduler::instance().wake(parent_);
  }

 private:
  void run() {
    scheduler& all = scheduler::instance();
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    unfinished_ = processes_.size();
    if (parent_ != nullptr && counting_cycles()) parent_->timing.close();
    for (const std::unique_ptr<process>& task : processes_) {
      if (parent_ != nullptr) task->timing.start_at(parent_->timing.cycle());
      all.add(task.get());
    }
    if (parent_ == nullptr) {
      all.run();
    } else if (unfinished_ != 0) {
      all.block(waiting::children, nullptr);
    }
    check_all_read();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (parent_ == nullptr) all.record(*this, spent.count());
    for (const std::unique_ptr<process>& task : processes_) {
      if (parent_ == nullptr) continue;
      parent_->overflows += task->overflows;
      parent_->timing.continue_at(task->timing.cycle());
    }
    for (fifo* each : all.fifos()) {
      if (uses(*each)) each->rebind(parent_);
    }
  }

  // A token that nobody took: the producer's and the consumer's rates differ.
  void check_all_read() const;

  std::string name_;
  process* parent_;
  std::vector<std::unique_ptr<process>> processes_;
  std::size_t unfinished_ = 0;
};

// For the kernels: the running process enters a loop, starts an iteration, leaves the loop.
inline void enter_loop(loop kind, std::uint64_t latency, std::uint64_t interval) {
  if (counting_cycles() && running() != nullptr) running()->timing.enter(kind, latency, interval);
}
inline void start_iteration() {
  if (counting_cycles() && running() != nullptr) running()->timing.next_iteration();
}
// Reads and writes after a loop do not belong to its last iteration.
inline void leave_loop() {
  if (counting_cycles() && running() != nullptr) running()->timing.close();
}

// Counts a value that did not fit its type against the process that made it.
inline void count_overflow() {
  if (running() != nullptr) {
    ++running()->overflows;
  } else {
    scheduler::instance().count_outside_overflow();
  }
}

}  // namespace sim
}  // namespace inr

#include "verdict.hpp"

#endif

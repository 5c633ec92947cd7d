// SPDX-License-Identifier: Apache-2.0
//
// When a process reads and writes, in cycles (INR_SIM_CYCLES=1). Included by scheduler.hpp.
//
// The rules are those of RTL from Vitis HLS. All reads of an iteration happen in one cycle, and so
// do all its writes; an iteration starts at least the loop's interval after the one before. A
// token can be read 1 cycle after it was written to a FIFO of shift registers and 2 after to a
// memory; a place can be written 1 cycle after its token was read. Entering a loop takes a cycle.
// Every cycle is the maximum of cycles that are already known, so the order in which fibers run
// does not matter here either.
#ifndef INR_SIM_PIPELINE_HPP
#define INR_SIM_PIPELINE_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

namespace inr {
namespace sim {

class fifo;
struct process;

// Whether this run counts cycles. False until the first FIFO or region exists.
template <class Dummy>
struct counts_cycles {
  static bool value;
};
template <class Dummy>
bool counts_cycles<Dummy>::value = false;

inline bool& counting_cycles() { return counts_cycles<void>::value; }

// What a pipelined loop does with streams. One that reads and writes lets iterations end while
// the next waits for input (`style = flp`); the others are one chain that stalls as a whole.
enum class loop { reads, writes, both };

// The iterations of one process, of which several can be under way.
class pipeline {
 public:
  explicit pipeline(process* owner) : owner_(owner) { leave_loop(); }

  // The last cycle in which something happened.
  std::uint64_t cycle() const { return cycle_; }
  void start_at(std::uint64_t cycle) { cycle_ = cycle; }
  void continue_at(std::uint64_t cycle) {
    if (cycle > cycle_) cycle_ = cycle;
  }

  // A loop begins. `latency` is from an iteration's start to its writes, or in one that only reads
  // to the end of its last iteration; the iterations before have left.
  void enter(loop kind, std::uint64_t latency, std::uint64_t interval);

  // The next iteration. Outside loops each read and each write is an iteration of its own.
  void next_iteration() {
    // Most iterations of a matrix product neither read nor write.
    if (open_ && !overlaps_ && taken_.empty() && given_.empty()) {
      cycle_ = start_;
      start_ += interval_;
      return;
    }
    start_iteration();
  }

  // Waits until all iterations have left; the process is between loops then.
  void close();

  // A read or write begins; `again` when the open iteration has had it.
  void begin(bool again) {
    if (!open_ || again) start_iteration();
  }
  // The open iteration reads a token that is there from `cycle` on.
  void take(fifo* from, std::uint64_t cycle) {
    if (cycle > start_) start_ = cycle;
    taken_.push_back(from);
    if (!in_loop_) finish_iteration();
  }
  void give(fifo* to) {
    given_.push_back(to);
    if (!in_loop_) finish_iteration();
  }

  // Lets iterations leave as far as the FIFOs that they write have room.
  void advance();

  // The FIFO without room that keeps the oldest iteration from leaving; null where none does.
  fifo* held_by() const { return held_by_; }

 private:
  struct iteration {
    std::uint64_t start = 0;
    std::vector<fifo*> writes;
  };

  void start_iteration();
  void finish_iteration();
  void wait_for_room();
  void leave_loop();

  process* owner_;
  std::uint64_t cycle_ = 0;
  fifo* held_by_ = nullptr;

  bool in_loop_ = false;
  bool overlaps_ = false;       // several iterations can be under way
  std::uint64_t latency_ = 0;   // from start to writes
  std::uint64_t lead_ = 0;      // before the first write, in a loop that only writes
  std::uint64_t drain_ = 0;     // after the last read, in a loop that only reads
  std::uint64_t interval_ = 1;

  bool open_ = false;
  std::uint64_t start_ = 0;   // of the open iteration, as far as is known
  std::vector<fifo*> taken_;  // what it has read; it frees these places when it is complete
  std::vector<fifo*> given_;  // what it has written

  // Iterations under way are numbered; each has a place by its number modulo the capacity, which
  // also keeps when the one before in that place left.
  std::vector<iteration> under_way_;
  std::vector<std::uint64_t> left_at_;
  std::size_t capacity_ = 1;
  std::uint64_t opened_ = 0;   // all iterations of the loop
  std::uint64_t started_ = 0;  // those that were or are under way
  std::uint64_t ended_ = 0;
  std::uint64_t left_ = 0;  // the cycle in which the last one left
};

}  // namespace sim
}  // namespace inr

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The type-independent part of a bounded FIFO, and how the iterations of a pipeline pass it.
// Included by scheduler.hpp.
#ifndef INR_SIM_FIFO_HPP
#define INR_SIM_FIFO_HPP

#include "scheduler.hpp"

namespace inr {
namespace sim {

class fifo {
 public:
  const std::string& name() const { return name_; }
  int element_bits() const { return element_bits_; }
  // By order of declaration.
  std::uint64_t number() const { return number_; }
  std::uint64_t declared_depth() const { return declared_depth_; }
  std::uint64_t depth() const { return depth_; }
  std::uint64_t maximum_occupancy() const { return maximum_; }
  // Written by iterations that have not left their pipeline.
  std::uint64_t leaving() const { return leaving_; }
  // Written since the region started.
  std::uint64_t tokens() const { return written_ - written_before_; }
  std::uint64_t unread() const { return written_ - read_; }
  process* writer() const { return writer_; }
  process* reader() const { return reader_; }
  bool external() const { return external_; }
  bool internal() const { return internal_; }

  // The other end is outside the region (an argument of the top function): unbounded here.
  void make_external() {
    external_ = true;
    depth_ = UINT64_MAX;
  }

  // Storage inside a kernel: kept out of the report and never grown.
  void make_internal() { internal_ = true; }

  void grow() { ++depth_; }

  // Says what it is made of, where that does not follow from depth and width.
  void make_of(const char* storage) { in_memory_ = std::strcmp(storage, "srl") != 0; }

  // A region ended and its processes are about to go; `heir` is the process around them or null.
  void rebind(process* heir) {
    if (heir == nullptr) {
      writer_ = reader_ = nullptr;
      written_before_ = written_;
      // The next run counts from zero.
      read_at_.clear();
      trace_written_.clear();
      trace_read_.clear();
      written_at_.assign(counting_cycles() ? std::size_t(unread()) : 0, 0);
      return;
    }
    if (descends(writer_, heir)) writer_ = heir;
    if (descends(reader_, heir)) reader_ = heir;
  }

  // For the pipeline of its writer or reader.

  bool has_room() const { return written_ - read_ < depth_; }

  // The first cycle in which the next token can be written; there must be room.
  std::uint64_t room_since() {
    if (written_ < depth_) return 0;
    const std::uint64_t freed = written_ - depth_;       // its place is taken
    const std::uint64_t first = read_ - read_at_.size();  // cycles are kept from this token on
    if (freed < first) return 0;
    const std::uint64_t cycle = read_at_[std::size_t(freed - first)];
    // A FIFO that may still grow looks further back.
    if (!scheduler::instance().grow()) {
      read_at_.erase(read_at_.begin(), read_at_.begin() + std::ptrdiff_t(freed - first + 1));
    }
    return cycle + 1;
  }

  // The iteration that wrote the next token leaves.
  void commit(std::uint64_t cycle) {
    --leaving_;
    written_at_.push_back(cycle);
    if (scheduler::instance().tracing()) trace_written_.push_back(cycle);
    deliver();
  }

  // The iteration that read the next token is complete.
  void release(std::uint64_t cycle) {
    reserved_ = false;
    written_at_.pop_front();
    if (!external_) read_at_.push_back(cycle);
    if (scheduler::instance().tracing()) trace_read_.push_back(cycle);
    ++read_;
    if (writer_ != nullptr && writer_->timing.held_by() == this) writer_->timing.advance();
  }

  // Every cycle in which it was written or read, in a run that traces.
  const std::vector<std::uint64_t>& trace_written() const { return trace_written_; }
  const std::vector<std::uint64_t>& trace_read() const { return trace_read_; }

  void close_iteration() { given_ = false; }

 protected:
  fifo(const std::string& name, int depth, int element_bits)
      : depth_(std::uint64_t(depth)), declared_depth_(std::uint64_t(depth)),
        element_bits_(element_bits) {
    scheduler& all = scheduler::instance();
    number_ = all.next_fifo_number();
    name_ = name.empty() ? "stream " + std::to_string(number_) : name;
    if (const int other = all.depth_of(name_)) depth_ = declared_depth_ = std::uint64_t(other);
    all.register_fifo(this);
  }
  ~fifo() { scheduler::instance().forget_fifo(this); }

  void begin_read() {
    if (reader_ != running()) bind_reader();
    if (counting_cycles() && reader_ != nullptr) reader_->timing.begin(reserved_);
    while (written_ == read_) {
      if (reader_ == nullptr) read_nothing();
      scheduler::instance().block(waiting::token, this);
    }
  }

  void end_read() {
    if (counting_cycles()) return end_counted_read();
    ++read_;
    if (writer_ != nullptr && writer_->blocked_on == this) scheduler::instance().wake(writer_);
  }

  // A write from outside any process (a testbench that fills its inputs) never blocks.
  void begin_write() {
    if (writer_ != running()) bind_writer();
    if (counting_cycles()) {
      if (writer_ != nullptr) writer_->timing.begin(given_);
      return;
    }
    if (writer_ == nullptr) return;
    while (!has_room()) scheduler::instance().block(waiting::space, this);
  }

  void end_write() {
    if (!counting_cycles()) return deliver();
    ++leaving_;
    if (writer_ == nullptr) return commit(0);
    given_ = true;
    writer_->timing.give(this);
  }

  // Written, whether or not it can be read yet.
  std::uint64_t placed() const { return written_ + leaving_; }

  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t leaving_ = 0;
  std::uint64_t depth_;

 private:
  void bind_reader() {
    if (reader_ != nullptr && !descends(running(), reader_)) share("read", reader_);
    reader_ = running();
  }
  void bind_writer() {
    if (writer_ != nullptr && !descends(running(), writer_)) share("written", writer_);
    writer_ = running();
  }
  void deliver() {
    ++written_;
    if (written_ - read_ > maximum_) maximum_ = written_ - read_;
    if (reader_ != nullptr && reader_->blocked_on == this) scheduler::instance().wake(reader_);
  }
  void end_counted_read() {
    if (reader_ == nullptr) {
      written_at_.pop_front();
      ++read_;
      return;
    }
    reserved_ = true;
    reader_->timing.take(this, written_at_.front() + delay());
  }
  // Cycles from a write until the token can be read: shift registers are used up to depth 2 or
  // 1024 bits.
  std::uint64_t delay() const {
    const bool deep = depth_ > 2 && depth_ * std::uint64_t(element_bits_) > 1024;
    return (in_memory_ < 0 ? deep && !external_ : in_memory_ > 0) ? 2 : 1;
  }
  [[noreturn]] void share(const char* verb, const process* first) const {
    std::fprintf(stderr, "ERROR: FIFO '%s' is %s by two processes, '%s' and '%s'; a stream has one "
                 "writer and one reader (inr::copy makes more)\n",
                 name_.c_str(), verb, first->name.c_str(),
                 running() == nullptr ? "outside" : running()->name.c_str());
    scheduler::instance().fail(status_misuse, "shared stream");
  }
  [[noreturn]] void read_nothing() const {
    std::fprintf(stderr, "ERROR: FIFO '%s' is read outside a region while it is empty\n",
                 name_.c_str());
    scheduler::instance().fail(status_misuse, "read of an empty stream");
  }

  std::uint64_t maximum_ = 0;
  std::uint64_t written_before_ = 0;
  process* writer_ = nullptr;
  process* reader_ = nullptr;
  std::uint64_t declared_depth_;
  std::uint64_t number_ = 0;
  int element_bits_;
  bool external_ = false;
  bool internal_ = false;
  int in_memory_ = -1;     // -1 where it follows from depth and width
  bool reserved_ = false;  // read by an iteration that is not complete
  bool given_ = false;     // written by an iteration that is not complete
  std::deque<std::uint64_t> written_at_;  // the cycle of each token that is in it
  std::deque<std::uint64_t> read_at_;     // of the latest tokens that were read
  std::vector<std::uint64_t> trace_written_, trace_read_;
  std::string name_;
};

// The iterations of a process, see pipeline.hpp.

inline void pipeline::enter(loop kind, std::uint64_t latency, std::uint64_t interval) {
  close();
  in_loop_ = true;
  overlaps_ = kind == loop::both;
  latency_ = kind == loop::both ? latency : 0;
  lead_ = kind == loop::writes ? latency : 0;
  drain_ = kind == loop::reads ? latency : 0;
  interval_ = interval;
  // As many as are under way at full speed, when a place is free the cycle after it is left.
  capacity_ = overlaps_ ? std::size_t((latency + 1 + interval - 1) / interval) : 1;
  if (under_way_.size() < capacity_) {
    under_way_.resize(capacity_);
    left_at_.resize(capacity_);
  }
  cycle_ += 1;
}

inline void pipeline::start_iteration() {
  if (open_) finish_iteration();
  while (started_ - ended_ >= capacity_) wait_for_room();
  start_ = cycle_ + (opened_ == 0 ? 1 + lead_ : interval_);
  if (overlaps_ && started_ >= capacity_) {
    start_ = std::max(start_, left_at_[std::size_t(started_ % capacity_)] + 1);
  }
  ++opened_;
  open_ = true;
}

inline void pipeline::finish_iteration() {
  open_ = false;
  cycle_ = start_;
  for (fifo* each : taken_) each->release(start_);
  taken_.clear();
  if (given_.empty() && !overlaps_) return;
  for (fifo* each : given_) each->close_iteration();
  iteration& here = under_way_[std::size_t(started_ % capacity_)];
  here.start = start_;
  here.writes.swap(given_);
  ++started_;
  // With others before it in the way, it waits behind them.
  if (held_by_ == nullptr) advance();
}

inline void pipeline::advance() {
  held_by_ = nullptr;
  while (ended_ != started_) {
    const std::size_t place = std::size_t(ended_ % capacity_);
    iteration& oldest = under_way_[place];
    std::uint64_t cycle = oldest.start + latency_;
    if (ended_ != 0) cycle = std::max(cycle, left_ + interval_);
    for (fifo* each : oldest.writes) {
      if (!each->has_room()) {
        held_by_ = each;
        if (owner_->state == waiting::space) owner_->blocked_on = each;
        return;
      }
    }
    for (fifo* each : oldest.writes) cycle = std::max(cycle, each->room_since());
    for (fifo* each : oldest.writes) each->commit(cycle);
    oldest.writes.clear();
    left_at_[place] = left_ = cycle;
    ++ended_;
    if (!overlaps_) cycle_ = std::max(cycle_, cycle);
    if (owner_->state == waiting::space) scheduler::instance().wake(owner_);
  }
}

inline void pipeline::wait_for_room() { scheduler::instance().block(waiting::space, held_by_); }

inline void pipeline::close() {
  if (open_) finish_iteration();
  while (started_ != ended_) wait_for_room();
  if (overlaps_ && ended_ != 0) cycle_ = std::max(cycle_, left_);
  if (opened_ != 0) cycle_ += drain_;
  leave_loop();
}

inline void pipeline::leave_loop() {
  in_loop_ = overlaps_ = false;
  latency_ = lead_ = drain_ = 0;
  interval_ = 1;
  capacity_ = 1;
  opened_ = started_ = ended_ = 0;
  under_way_.resize(std::max<std::size_t>(under_way_.size(), 1));
  left_at_.resize(under_way_.size());
}

}  // namespace sim
}  // namespace inr

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Switching between fibers, and what is said at the end: the deadlock and the processes in it,
// tokens that nobody read, and the report. Included by scheduler.hpp.
#ifndef INR_SIM_VERDICT_HPP
#define INR_SIM_VERDICT_HPP

#include "scheduler.hpp"

namespace inr {
namespace sim {

inline void scheduler::enter() {
  running()->body();
  if (counting_cycles()) running()->timing.close();
  instance().finish();
}

inline void scheduler::resume(process* next) {
  running() = next;
  if (next->started) inr_sim_jump(next->resume_point, 1);
  next->started = true;
  makecontext(&next->context, &scheduler::enter, 0);
  setcontext(&next->context);
  std::abort();  // setcontext returns only on failure
}

// The next process to run; null when all have finished. Ends the program on a deadlock.
inline process* scheduler::next_ready() {
  if (ready_.empty() && !alive_.empty()) {
    const std::vector<blockage> cycle = wait_cycle();
    if (!grow_ || !relieve(cycle)) {
      explain_deadlock(cycle);
      fail(status_deadlock, "deadlock");
    }
  }
  if (ready_.empty()) return nullptr;
  process* next = ready_.front();
  ready_.pop_front();
  return next;
}

// Goes on with `next`; returns when `here` is resumed. Not inlined: what lives across the return of
// setjmp is then only its arguments.
__attribute__((noinline)) inline void scheduler::leave(jmp_buf& here, process* next) {
  if (_setjmp(here) == 0) resume(next);
}

inline void scheduler::block(waiting state, fifo* on) {
  process* self = running();
  self->state = state;
  self->blocked_on = on;
  process* next = next_ready();
  if (next == self) return;
  leave(self->resume_point, next);
}

// A fault below a stack: said by name, with what helps. Any other is left to its default.
inline void scheduler::on_fault(int signal, siginfo_t* what, void*) {
  const process* task = running();
  if (task == nullptr || !task->overruns(what->si_addr)) {
    ::signal(signal, SIG_DFL);
    return;  // the access is repeated and then ends the program
  }
  std::fprintf(stderr, "ERROR: the buffers of process '%s' do not fit its stack of %zu KB; "
               "INR_SIM_STACK_KB sets it\n",
               task->name.c_str(), instance().stack_bytes() / 1024);
  std::_Exit(status_misuse);
}

// The handler needs a stack of its own, the faulting one being full.
inline void scheduler::watch_stacks() {
  if (watching_) return;
  watching_ = true;
  static char memory[64 * 1024];
  stack_t alternate = stack_t();
  alternate.ss_sp = memory;
  alternate.ss_size = sizeof memory;
  struct sigaction action = {};
  action.sa_sigaction = &scheduler::on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaltstack(&alternate, nullptr) == 0) sigaction(SIGSEGV, &action, nullptr);
}

inline void scheduler::run() {
  watch_stacks();
  process* first = next_ready();
  if (first != nullptr) leave(outside_, first);
}

inline void scheduler::finish() {
  process* self = running();
  self->finished = true;
  for (std::size_t i = 0; i < alive_.size(); ++i) {
    if (alive_[i] != self) continue;
    alive_.erase(alive_.begin() + std::ptrdiff_t(i));
    break;
  }
  self->home->one_finished();
  process* next = next_ready();
  if (next != nullptr) resume(next);
  running() = nullptr;
  inr_sim_jump(outside_, 1);
}

// The process at the other end of what `blocked` waits for; null when there is none that could
// still act.
inline const process* scheduler::waits_for(const blockage& blocked) const {
  if (blocked.state() == waiting::children) {
    for (const process* each : alive_) {
      if (each->parent == blocked.task) return each;
    }
    return nullptr;
  }
  const fifo* on = blocked.on();
  const process* other = blocked.state() == waiting::token ? on->writer() : on->reader();
  if (other != nullptr) return other->finished ? nullptr : other;
  // It has not touched the FIFO yet: the one whose call names it. Latest first, so that a part
  // of a process is preferred to the whole.
  for (std::size_t i = alive_.size(); i-- > 0;) {
    if (descends(blocked.task, alive_[i])) continue;
    for (const void* mentioned : alive_[i]->mentions) {
      if (mentioned == static_cast<const void*>(on)) return alive_[i];
    }
  }
  return nullptr;
}

// What keeps that process: a token may be written already and wait to leave its pipeline.
inline blockage scheduler::behind(const blockage& blocked) const {
  const process* other = waits_for(blocked);
  const bool leaving = other != nullptr && blocked.state() == waiting::token &&
                       blocked.on()->leaving() != 0 && other->timing.held_by() != nullptr;
  return {other, leaving};
}

inline std::vector<blockage> scheduler::blockages() const {
  std::vector<blockage> all;
  for (const process* task : alive_) {
    all.push_back({task, false});
    const fifo* held_by = task->timing.held_by();
    if (held_by != nullptr && task->blocked_on != held_by) all.push_back({task, true});
  }
  return all;
}

// Everything blocked waits for one other, so following them from any ends at one that waits for
// nobody or runs into a cycle; the first cycle found, in the order of the processes.
inline std::vector<blockage> scheduler::wait_cycle() {
  std::vector<blockage> path;
  for (const blockage& start : blockages()) {
    ++visits_;
    path.clear();
    blockage at = start;
    // What an earlier path came through leads to no cycle, or it would have been found.
    while (at.task != nullptr && at.visit() < first_visit_of_search_) {
      at.visit() = visits_;
      path.push_back(at);
      at = behind(at);
    }
    if (at.task == nullptr || at.visit() != visits_) continue;
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    first_visit_of_search_ = visits_ + 1;
    return path;
  }
  first_visit_of_search_ = visits_ + 1;
  return std::vector<blockage>();
}

// Makes the shallowest full FIFO on the cycle one deeper, of equals the first declared; without a
// cycle, of those whose reader is not known. False when none is there to deepen.
inline bool scheduler::relieve(const std::vector<blockage>& cycle) {
  fifo* chosen = nullptr;
  for (const blockage& each : cycle.empty() ? unread_writers() : cycle) {
    if (each.state() != waiting::space || each.on()->internal()) continue;
    fifo* full = each.on();
    if (chosen != nullptr && full->depth() > chosen->depth()) continue;
    if (chosen != nullptr && full->depth() == chosen->depth() &&
        full->number() > chosen->number()) {
      continue;
    }
    chosen = full;
  }
  if (chosen == nullptr) return false;
  chosen->grow();
  if (counting_cycles()) {
    chosen->writer()->timing.advance();
  } else {
    wake(chosen->writer());
  }
  return true;
}

// Those that wait for room in a FIFO that nobody has read and no other call names.
inline std::vector<blockage> scheduler::unread_writers() const {
  std::vector<blockage> found;
  for (const blockage& each : blockages()) {
    if (each.state() != waiting::space) continue;
    if (each.on()->reader() == nullptr && waits_for(each) == nullptr) found.push_back(each);
  }
  return found;
}

inline void scheduler::explain(const blockage& blocked) const {
  const process* task = blocked.task;
  if (blocked.state() == waiting::children) {
    std::fprintf(stderr, "  process '%s' waits for its parts\n", task->name.c_str());
    return;
  }
  const fifo* on = blocked.on();
  const bool reads = blocked.state() == waiting::token;
  const process* other = waits_for(blocked);
  const process* gone = reads ? on->writer() : on->reader();
  std::fprintf(stderr,
               "  process '%s' %s to %s FIFO '%s': %s, depth %llu, %llu tokens passed; ",
               task->name.c_str(), blocked.leaving ? "has results that wait" : "waits",
               reads ? "read" : "write", on->name().c_str(), reads ? "empty" : "full",
               static_cast<unsigned long long>(on->depth()),
               static_cast<unsigned long long>(on->tokens() - on->unread()));
  const char* role = reads ? "writer" : "reader";
  if (other != nullptr) {
    std::fprintf(stderr, "its %s is '%s'\n", role, other->name.c_str());
  } else if (gone != nullptr) {
    std::fprintf(stderr, "its %s '%s' has finished\n", role, gone->name.c_str());
  } else {
    std::fprintf(stderr, "nobody that could is its %s\n", role);
  }
}

inline void scheduler::explain_deadlock(const std::vector<blockage>& cycle) const {
  const process* root = alive_.front();
  while (root->parent != nullptr) root = root->parent;
  std::fprintf(stderr, "DEADLOCK in region '%s': no process can run and %zu have not finished\n",
               root->home->name().c_str(), alive_.size());
  for (const blockage& each : blockages()) explain(each);
  if (cycle.empty()) {
    std::fprintf(stderr, "  no cycle: a process waits for one that is done or does not exist, so "
                 "deeper FIFOs do not help\n");
    return;
  }
  std::fprintf(stderr, "  cycle:");
  bool curable = false;
  for (const blockage& each : cycle) {
    std::fprintf(stderr, " '%s'", each.task->name.c_str());
    if (each.on() == nullptr) {
      std::fprintf(stderr, " ->");
      continue;
    }
    std::fprintf(stderr, " -[%s %s]->", each.on()->name().c_str(),
                 each.state() == waiting::token ? "empty" : "full");
    curable = curable || each.state() == waiting::space;
  }
  std::fprintf(stderr, " '%s'\n", cycle.front().task->name.c_str());
  std::fprintf(stderr, curable ? "  a deeper FIFO among the full ones breaks it; INR_SIM_GROW=1 "
                                 "finds how deep\n"
                               : "  no FIFO on it is full, so deeper ones do not help\n");
}

inline void region::check_all_read() const {
  bool complete = true;
  for (const fifo* each : scheduler::instance().fifos()) {
    if (each->unread() == 0 || each->external() || !owns(each->writer())) continue;
    // Inside a process, a FIFO that leaves it is read by somebody else.
    if (parent_ != nullptr && !owns(each->reader())) continue;
    complete = false;
    std::fprintf(stderr,
                 "ERROR: region '%s' finished with %llu of %llu tokens unread in FIFO '%s', "
                 "written by '%s' and read by '%s'\n",
                 name_.c_str(), static_cast<unsigned long long>(each->unread()),
                 static_cast<unsigned long long>(each->tokens()), each->name().c_str(),
                 each->writer()->name.c_str(),
                 each->reader() == nullptr ? "nobody" : each->reader()->name.c_str());
  }
  if (complete) return;
  if (parent_ == nullptr) scheduler::instance().record(*this, 0);
  scheduler::instance().fail(status_misuse, "unread tokens");
}

inline void scheduler::record(const region& which, double seconds) {
  std::size_t at = 0;
  while (at < records_.size() && records_[at].name != which.name()) ++at;
  if (at == records_.size()) {
    records_.emplace_back();
    records_[at].name = which.name();
  }
  region_record& entry = records_[at];
  entry.runs += 1;
  entry.seconds += seconds;
  // A later run declares the same FIFOs and processes in the same order, so look there first.
  std::size_t place = 0;
  for (const fifo* each : fifos_) {
    if (each->internal() || !which.uses(*each)) continue;
    if (place >= entry.fifos.size() || entry.fifos[place].first != each->name()) {
      place = 0;
      while (place < entry.fifos.size() && entry.fifos[place].first != each->name()) ++place;
    }
    if (place == entry.fifos.size()) entry.fifos.emplace_back(each->name(), fifo_record());
    fifo_record& line = entry.fifos[place++].second;
    line.element_bits = each->element_bits();
    line.declared_depth = each->declared_depth();
    if (!each->external()) line.final_depth = std::max(line.final_depth, each->depth());
    line.maximum_occupancy = std::max(line.maximum_occupancy, each->maximum_occupancy());
    line.tokens += each->tokens();
    line.written_at = each->trace_written();
    line.read_at = each->trace_read();
  }
  std::uint64_t last = 0;
  for (const std::unique_ptr<process>& task : which.processes()) {
    std::size_t line = 0;
    while (line < entry.processes.size() && entry.processes[line].first != task->name) ++line;
    if (line == entry.processes.size()) entry.processes.emplace_back(task->name, process_record());
    process_record& found = entry.processes[line].second;
    found.overflows += task->overflows;
    found.cycles = std::max(found.cycles, task->timing.cycle());
    last = std::max(last, task->timing.cycle());
  }
  entry.cycles = std::max(entry.cycles, last);
}

inline void scheduler::fail(exit_status status, const char* verdict) {
  std::vector<const region*> unfinished;
  for (const process* each : alive_) {
    while (each->parent != nullptr) each = each->parent;
    if (unfinished.empty() || unfinished.back() != each->home) unfinished.push_back(each->home);
  }
  for (const region* each : unfinished) record(*each, 0);
  conclude(verdict);
  std::fflush(nullptr);
  std::_Exit(status);
}

inline void scheduler::conclude(const char* verdict) const {
  for (const region_record& entry : records_) {
    for (const std::pair<std::string, fifo_record>& each : entry.fifos) {
      const fifo_record& line = each.second;
      if (line.final_depth <= line.declared_depth) continue;
      std::fprintf(stderr, "FIFO '%s' of region '%s': depth %llu is declared, %llu is needed\n",
                   each.first.c_str(), entry.name.c_str(),
                   static_cast<unsigned long long>(line.declared_depth),
                   static_cast<unsigned long long>(line.final_depth));
    }
    for (const std::pair<std::string, process_record>& each : entry.processes) {
      if (each.second.overflows == 0) continue;
      std::fprintf(stderr, "process '%s' of region '%s': %llu values did not fit their type\n",
                   each.first.c_str(), entry.name.c_str(),
                   static_cast<unsigned long long>(each.second.overflows));
    }
  }
  for (const std::pair<const std::string, int>& each : depths_) {
    if (given_.count(each.first) != 0) continue;
    std::fprintf(stderr, "INR_SIM_DEPTHS gives a depth for '%s', but there is no such FIFO\n",
                 each.first.c_str());
  }
  if (!report_.empty()) write_report(verdict);
}

inline std::string json_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
      quoted += code;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

inline std::string json_numbers(const std::vector<std::uint64_t>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(numbers[i]);
  }
  return text + "]";
}

// A number of cycles for the report; null in a run that does not count them.
inline std::string counted(std::uint64_t cycles) {
  return counting_cycles() ? std::to_string(cycles) : "null";
}

inline void scheduler::write_report(const char* verdict) const {
  std::FILE* file = std::fopen(report_.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "simulation: cannot write the report '%s' (INR_SIM_REPORT)\n",
                 report_.c_str());
    return;
  }
  std::fprintf(file, "{\"verdict\": %s, \"overflows_outside\": %llu, \"regions\": [",
               json_string(verdict).c_str(), static_cast<unsigned long long>(outside_overflows_));
  const char* region_comma = "";
  for (const region_record& entry : records_) {
    std::fprintf(file, "%s\n {\"name\": %s, \"runs\": %llu, \"seconds\": %.6f, \"cycles\": %s,"
                 "\n  \"fifos\": [",
                 region_comma, json_string(entry.name).c_str(),
                 static_cast<unsigned long long>(entry.runs), entry.seconds,
                 counted(entry.cycles).c_str());
    region_comma = ",";
    const char* comma = "";
    for (const std::pair<std::string, fifo_record>& each : entry.fifos) {
      const fifo_record& line = each.second;
      std::fprintf(file,
                   "%s\n   {\"name\": %s, \"bits\": %d, \"declared_depth\": %llu, "
                   "\"final_depth\": %llu, \"maximum_occupancy\": %llu, \"tokens\": %llu",
                   comma, json_string(each.first).c_str(), line.element_bits,
                   static_cast<unsigned long long>(line.declared_depth),
                   static_cast<unsigned long long>(line.final_depth),
                   static_cast<unsigned long long>(line.maximum_occupancy),
                   static_cast<unsigned long long>(line.tokens));
      if (tracing_) {
        std::fprintf(file, ",\n    \"written_at\": %s,\n    \"read_at\": %s",
                     json_numbers(line.written_at).c_str(), json_numbers(line.read_at).c_str());
      }
      std::fprintf(file, "}");
      comma = ",";
    }
    std::fprintf(file, "],\n  \"processes\": [");
    comma = "";
    for (const std::pair<std::string, process_record>& each : entry.processes) {
      std::fprintf(file, "%s\n   {\"name\": %s, \"overflows\": %llu, \"cycles\": %s}", comma,
                   json_string(each.first).c_str(),
                   static_cast<unsigned long long>(each.second.overflows),
                   counted(each.second.cycles).c_str());
      comma = ",";
    }
    std::fprintf(file, "]}");
  }
  std::fprintf(file, "\n]}\n");
  std::fclose(file);
}

}  // namespace sim
}  // namespace inr

#endif

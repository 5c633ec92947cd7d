// SPDX-License-Identifier: Apache-2.0
//
// hls::stream for simulation with g++: FIFOs bounded at their declared depth, for processes that
// run as fibers (inr_sim/scheduler.hpp). Put this folder first on the include path and nothing
// else changes; without it the same sources compile with the vendor's header of this name.
#ifndef INR_SIM_HLS_STREAM_H
#define INR_SIM_HLS_STREAM_H

#if defined(INR_OVERFLOW_HPP) && !defined(INR_SIM)
#error "include <hls_stream.h> before the headers of inr: they count overflows only after it"
#endif
#define INR_SIM 1

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "inr_sim/scheduler.hpp"

namespace inr {

template <class T, int B>
struct block;

namespace sim {

// Bits of one element as the hardware stores it; 0 where the type does not say.
template <class T, class = void>
struct element_bits {
  static const int value = std::is_arithmetic<T>::value ? int(8 * sizeof(T)) : 0;
};

// Every ap_[u]int and ap_[u]fixed has an enumerator `width`.
template <class T>
struct element_bits<T, typename std::enable_if<(T::width > 0)>::type> {
  static const int value = T::width;
};

template <class T, int B>
struct element_bits<block<T, B>, void> {
  static const int value = B * element_bits<T>::value;
};

}  // namespace sim
}  // namespace inr

namespace hls {

template <class T, int Depth = 0>
class stream;

// A FIFO of unknown declared depth: what kernels take by reference. A `hls::stream<T>` that is
// declared as such has Vitis' default depth of 2.
template <class T>
class stream<T, 0> : public inr::sim::fifo {
 public:
  stream() : stream(std::string(), 2) {}
  explicit stream(const char* name) : stream(std::string(name), 2) {}
  explicit stream(const std::string& name) : stream(name, 2) {}

  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  // Blocks the calling process while the FIFO is empty.
  T read() {
    begin_read();
    T value = slots_[std::size_t(read_) & mask_];
    end_read();
    return value;
  }

  void read(T& value) {
    begin_read();
    value = slots_[std::size_t(read_) & mask_];
    end_read();
  }

  // Blocks the calling process while the FIFO is full.
  void write(const T& value) {
    begin_write();
    if (placed() - read_ > mask_) enlarge();
    slots_[std::size_t(placed()) & mask_] = value;
    end_write();
  }

  void operator>>(T& value) { read(value); }
  void operator<<(const T& value) { write(value); }

  bool empty() const { return written_ == read_; }
  bool full() const { return written_ - read_ >= depth_; }
  std::size_t size() const { return std::size_t(written_ - read_); }

 protected:
  stream(const std::string& name, int depth)
      : fifo(name, depth, inr::sim::element_bits<T>::value), slots_(1), mask_(0) {}

 private:
  // The ring holds a power of two of slots and doubles up to what is in flight, so that a FIFO
  // declared as deep as an array costs no memory until it is filled.
  void enlarge() {
    const std::uint64_t mask = 2 * mask_ + 1;
    std::vector<T> wider(std::size_t(mask) + 1);
    for (std::uint64_t i = read_; i != placed(); ++i) {
      wider[std::size_t(i & mask)] = slots_[std::size_t(i & mask_)];
    }
    slots_.swap(wider);
    mask_ = mask;
  }

  std::vector<T> slots_;
  std::uint64_t mask_;
};

template <class T, int Depth>
class stream : public stream<T, 0> {
  static_assert(Depth > 0, "the depth of a stream is positive, or 0 for the tool's default");

 public:
  stream() : stream<T, 0>(std::string(), Depth) {}
  explicit stream(const char* name) : stream<T, 0>(std::string(name), Depth) {}
  explicit stream(const std::string& name) : stream<T, 0>(name, Depth) {}
};

}  // namespace hls

#endif

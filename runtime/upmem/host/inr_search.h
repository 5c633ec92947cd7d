/*
 * The search of a layer of tables: the index of the nearest centroid of each sub-vector.
 *
 *     inr_search s;
 *     if (inr_search_prepare(&s, 768, 192, 16, 4, centroids, steps)) ...no memory...
 *     inr_search_rows(&s, x, rows, indices, 0, INR_SEARCH_BEST);
 *     inr_search_free(&s);
 *
 * Integers throughout, so that every path gives the same bytes: coordinates are rounded to a grid
 * of +-2047 and the index is argmin_k (ceil(|c_k|^2 / 2) - q.c_k), the lowest where several are.
 *
 * How it is fast. Lanes are rows. Two channels of a row are one 32-bit word, so that one
 * multiply-add (pmaddwd) serves two channels of 8 or 16 rows. The score times 16 plus the number of
 * the centroid among 16 is one 32-bit key, so that one minimum keeps both; 16 * 2047 still fits the
 * 16 bits of a factor. Blocks of 16 centroids are compared by their keys without the number.
 *
 * C99 and libc. The AVX paths are compiled by GCC and Clang for x86-64 whatever the options, and
 * chosen at run time. Not for -ffast-math: NaN counts as the coordinate 0.
 */
#ifndef INR_SEARCH_H
#define INR_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "inr_search.h recognises NaN, which -ffast-math gives up"
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(INR_SEARCH_PORTABLE)
#define INR_SEARCH_X86 1
#include <immintrin.h>
#else
#define INR_SEARCH_X86 0
#endif

#define INR_SEARCH_GRID 2047
#define INR_SEARCH_ROWS 32 /* rows of a tile */
#define INR_SEARCH_GROUP 16 /* centroids whose number fits a key */
#define INR_SEARCH_KEYED 20 /* channels up to which a key, 16 * 1.5 * V * 2047^2, fits 32 bits */

enum { INR_SEARCH_BEST = -1, INR_SEARCH_C = 0, INR_SEARCH_AVX2 = 1, INR_SEARCH_AVX512 = 2,
       INR_SEARCH_VNNI = 3 };

typedef struct {
  int width;  /* H: channels of a row */
  int blocks; /* CB: codebooks */
  int count;  /* K: centroids of a codebook, 1 to 256 */
  int vec;    /* V: channels of a codebook */
  int words;  /* ceil(V / 2): pairs of channels of a codebook */
  int padded; /* K rounded up to groups of 16 */
  int slots;  /* 16-bit coordinates of a row, rounded up to 16 */
  float *inverse;     /* slots: 1 / step */
  int16_t *centroids; /* CB x padded x words x 2: -16 c, or -c where keys do not fit */
  int32_t *keys;      /* CB x padded: 16 ceil(|c|^2 / 2) + k % 16, or ceil(|c|^2 / 2) */
} inr_search;

static inline int inr_search_keyed(const inr_search *s) { return s->vec <= INR_SEARCH_KEYED; }

static inline void inr_search_free(inr_search *s) {
  free(s->inverse);
  free(s->centroids);
  free(s->keys);
  s->inverse = NULL;
  s->centroids = NULL;
  s->keys = NULL;
}

/*
 * `centroids` is CB x K x V on the grid, `steps` CB. Returns 0, or -1 where memory is short or the
 * sizes are not 1 <= K <= 256, (CB - 1) V < H <= CB V, V <= 340 (a score fits 32 bits).
 */
static inline int inr_search_prepare(inr_search *s, int width, int blocks, int count, int vec,
                              const int16_t *centroids, const float *steps) {
  memset(s, 0, sizeof *s);
  if (count < 1 || count > 256 || vec < 1 || vec > 340 || blocks < 1 ||
      (int64_t)(blocks - 1) * vec >= width || width > (int64_t)blocks * vec)
    return -1;
  s->width = width, s->blocks = blocks, s->count = count, s->vec = vec;
  s->words = (vec + 1) / 2;
  s->padded = (count + INR_SEARCH_GROUP - 1) / INR_SEARCH_GROUP * INR_SEARCH_GROUP;
  s->slots = (blocks * s->words * 2 + 15) / 16 * 16;
  const size_t all = (size_t)blocks * s->padded;
  s->inverse = calloc(s->slots, sizeof *s->inverse);
  s->centroids = calloc(all * s->words * 2, sizeof *s->centroids);
  s->keys = calloc(all, sizeof *s->keys);
  if (!s->inverse || !s->centroids || !s->keys) {
    inr_search_free(s);
    return -1;
  }
  const int unit = inr_search_keyed(s) ? 16 : 1;
  for (int block = 0; block < blocks; block++) {
    for (int v = 0; v < vec; v++) s->inverse[block * s->words * 2 + v] = 1.0f / steps[block];
    for (int k = 0; k < s->padded; k++) {
      const size_t at = (size_t)block * s->padded + k;
      int32_t squares = 0;
      if (k >= count) {
        s->keys[at] = INT32_MAX; /* never the least */
        continue;
      }
      for (int v = 0; v < vec; v++) {
        const int c = centroids[((size_t)block * count + k) * vec + v];
        squares += c * c;
        s->centroids[at * s->words * 2 + v] = (int16_t)(-unit * c);
      }
      s->keys[at] = unit * ((squares + 1) >> 1) + (unit == 16 ? k % 16 : 0);
    }
  }
  return 0;
}

/* A pair of channels of a centroid as one word. */
static inline int32_t inr_search_word(const int16_t *two) {
  int32_t word;
  memcpy(&word, two, sizeof word);
  return word;
}

/* The coordinate of one activation on the grid; halves to even. */
static inline int16_t inr_search_round(float x, float inverse) {
  float t = x * inverse;
  int32_t bits;
  if (t != t) return 0;
  t = t < -INR_SEARCH_GRID ? -INR_SEARCH_GRID : t > INR_SEARCH_GRID ? INR_SEARCH_GRID : t;
  t += 12582912.0f; /* 1.5 * 2^23: the unit of the last place is 1 */
  memcpy(&bits, &t, sizeof bits);
  return (int16_t)(bits - 0x4B400000);
}

/* The activations of one row in the places of their coordinates, for odd V. */
static inline const float *inr_search_spread(const inr_search *s, const float *x, float *wide) {
  if (s->vec % 2 == 0) return x;
  for (int block = 0, at = 0; block < s->blocks; block++)
    for (int v = 0; v < s->vec && at < s->width; v++) wide[block * s->words * 2 + v] = x[at++];
  return wide;
}

static inline int inr_search_spread_width(const inr_search *s) {
  if (s->vec % 2 == 0) return s->width;
  return s->slots;
}

/* Coordinates of `rows` <= 32 rows, then transposed: words[word][row] holds two channels. */
static inline void inr_search_tile(const inr_search *s, const float *x, int rows, float *wide,
                            int16_t *words) {
  const int width = inr_search_spread_width(s);
  for (int row = 0; row < rows; row++) {
    const float *from = inr_search_spread(s, x + (size_t)row * s->width, wide);
    for (int slot = 0; slot < width; slot++)
      words[((size_t)(slot / 2) * INR_SEARCH_ROWS + row) * 2 + slot % 2] =
          inr_search_round(from[slot], s->inverse[slot]);
  }
}

/* Indices of a tile, indices[block][row]. */
static inline void inr_search_nearest(const inr_search *s, const int16_t *words, uint8_t *indices) {
  const int keyed = inr_search_keyed(s), n = s->words * 2;
  for (int block = 0; block < s->blocks; block++) {
    const int16_t *q = words + (size_t)block * s->words * 2 * INR_SEARCH_ROWS;
    int32_t best[INR_SEARCH_ROWS], where[INR_SEARCH_ROWS];
    for (int row = 0; row < INR_SEARCH_ROWS; row++) best[row] = INT32_MAX, where[row] = 0;
    for (int k = 0; k < s->count; k++) {
      const size_t at = (size_t)block * s->padded + k;
      const int16_t *c = s->centroids + at * n;
      int32_t key[INR_SEARCH_ROWS];
      for (int row = 0; row < INR_SEARCH_ROWS; row++) key[row] = s->keys[at];
      for (int word = 0; word < s->words; word++)
        for (int row = 0; row < INR_SEARCH_ROWS; row++) {
          const int16_t *two = q + ((size_t)word * INR_SEARCH_ROWS + row) * 2;
          key[row] += two[0] * c[2 * word] + two[1] * c[2 * word + 1];
        }
      for (int row = 0; row < INR_SEARCH_ROWS; row++) {
        const int32_t score = keyed ? key[row] >> 4 : key[row];
        const int less = score < best[row];
        best[row] = less ? score : best[row];
        where[row] = less ? k : where[row];
      }
    }
    for (int row = 0; row < INR_SEARCH_ROWS; row++)
      indices[(size_t)block * INR_SEARCH_ROWS + row] = (uint8_t)where[row];
  }
}

/* Two 4-bit indices a byte, the even codebook's in the lower half; bytes[pair][row]. */
static inline void inr_search_pack(const inr_search *s, uint8_t *indices) {
  for (int pair = 0; pair < (s->blocks + 1) / 2; pair++)
    for (int row = 0; row < INR_SEARCH_ROWS; row++) {
      const uint8_t *two = indices + (size_t)pair * 2 * INR_SEARCH_ROWS + row;
      const int high = 2 * pair + 1 < s->blocks ? two[INR_SEARCH_ROWS] : 0;
      indices[(size_t)pair * INR_SEARCH_ROWS + row] = (uint8_t)(two[0] | high << 4);
    }
}

/* bytes[column][row] to out[row][column]. */
static inline void inr_search_store(const uint8_t *bytes, int rows, int first, int columns,
                                    uint8_t *out) {
  for (int row = 0; row < rows; row++)
    for (int column = first; column < columns; column++)
      out[(size_t)row * columns + column] = bytes[(size_t)column * INR_SEARCH_ROWS + row];
}

#if INR_SEARCH_X86

#define INR_SEARCH_INLINE static inline __attribute__((always_inline))
#define INR_SEARCH_FOR_AVX2 __attribute__((target("avx2")))
#define INR_SEARCH_FOR_AVX512 __attribute__((target("avx2,avx512f,avx512bw")))
#define INR_SEARCH_FOR_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vnni")))

INR_SEARCH_FOR_AVX2 static inline __m256i inr_search_round8(__m256 x, __m256 inverse) {
  const __m256 low = _mm256_set1_ps(-INR_SEARCH_GRID), high = _mm256_set1_ps(INR_SEARCH_GRID);
  /* Of a number and a NaN both give the second operand: NaN stays, and becomes INT32_MIN. */
  const __m256 t = _mm256_min_ps(high, _mm256_max_ps(low, _mm256_mul_ps(x, inverse)));
  return _mm256_cvtps_epi32(t);
}

/* 16 coordinates of one row, its pairs in the order 0 1 4 5 2 3 6 7 that packs leave. */
INR_SEARCH_FOR_AVX2 static inline __m256i inr_search_round16(const float *x, const float *inverse) {
  const __m256i a = inr_search_round8(_mm256_loadu_ps(x), _mm256_loadu_ps(inverse));
  const __m256i b = inr_search_round8(_mm256_loadu_ps(x + 8), _mm256_loadu_ps(inverse + 8));
  const __m256i packed = _mm256_packs_epi32(a, b);
  /* INT32_MIN has become INT16_MIN, which no coordinate is. */
  const __m256i nan = _mm256_cmpeq_epi16(packed, _mm256_set1_epi16(INT16_MIN));
  return _mm256_andnot_si256(nan, packed);
}

INR_SEARCH_FOR_AVX2 static inline void inr_search_tile_avx2(const inr_search *s, const float *x,
                                                            int rows, float *wide,
                                                            int32_t *words) {
  const int width = inr_search_spread_width(s);
  for (int base = 0; base < rows; base += 8) {
    const float *from[8];
    for (int row = 0; row < 8; row++) {
      /* Past the last row the last one again: its results are not stored. */
      const int real = base + row < rows ? base + row : rows - 1;
      from[row] = inr_search_spread(s, x + (size_t)real * s->width, wide + (size_t)row * s->slots);
    }
    for (int slot = 0; slot < s->slots; slot += 16) {
      __m256i r[8], t[8];
      if (slot + 16 <= width) {
        for (int row = 0; row < 8; row++) {
          /* The same place eight rows on: eight rows at once are more than is fetched by itself. */
          const uintptr_t next = (uintptr_t)(from[row] + slot) + sizeof(float) * 8 * s->width;
          _mm_prefetch((const char *)next, _MM_HINT_T0);
          r[row] = inr_search_round16(from[row] + slot, s->inverse + slot);
        }
      } else {
        for (int row = 0; row < 8; row++) {
          float tail[16] = {0};
          for (int i = slot; i < width; i++) tail[i - slot] = from[row][i];
          r[row] = inr_search_round16(tail, s->inverse + slot);
        }
      }
      for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
      }
      for (int i = 0; i < 4; i++) {
        /* Halves hold words 0 1 4 5 and 2 3 6 7. */
        const int word = slot / 2 + i + (i & 2);
        int32_t *at = words + (size_t)word * INR_SEARCH_ROWS + base;
        _mm256_storeu_si256((__m256i *)at, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        at += 2 * INR_SEARCH_ROWS;
        _mm256_storeu_si256((__m256i *)at, _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
      }
    }
  }
}

/* The numbers of the nearest centroids of 32 rows, four vectors of words, to bytes. */
INR_SEARCH_FOR_AVX2 static inline void inr_search_bytes_avx2(const __m256i *where, uint8_t *out) {
  const __m256i low = _mm256_packus_epi32(where[0], where[1]);
  const __m256i high = _mm256_packus_epi32(where[2], where[3]);
  /* Packs work in halves of a vector: four rows of each in turn are put in order at last. */
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  _mm256_storeu_si256((__m256i *)out, bytes);
}

/* One codebook, 32 rows; what is constant where it is called unrolls. */
INR_SEARCH_FOR_AVX2 INR_SEARCH_INLINE void inr_search_some_avx2(
    const int32_t *q, const int16_t *c, const int32_t *keys, int padded, int words,
    __m256i *where) {
  const __m256i number = _mm256_set1_epi32(15);
  __m256i best[4];
  for (int group = 0; group < padded; group += INR_SEARCH_GROUP) {
    __m256i least[4];
    for (int i = 0; i < 4; i++) least[i] = _mm256_set1_epi32(INT32_MAX);
    for (int k = group; k < group + INR_SEARCH_GROUP; k++) {
      __m256i key[4];
      for (int i = 0; i < 4; i++) key[i] = _mm256_set1_epi32(keys[k]);
      for (int word = 0; word < words; word++) {
        const __m256i factor = _mm256_set1_epi32(inr_search_word(c + 2 * (k * words + word)));
        for (int i = 0; i < 4; i++) {
          const int32_t *at = q + word * INR_SEARCH_ROWS + 8 * i;
          const __m256i rows = _mm256_loadu_si256((const __m256i *)at);
          key[i] = _mm256_add_epi32(key[i], _mm256_madd_epi16(rows, factor));
        }
      }
      for (int i = 0; i < 4; i++) least[i] = _mm256_min_epi32(least[i], key[i]);
    }
    for (int i = 0; i < 4; i++) {
      const __m256i mine = _mm256_and_si256(least[i], number);
      if (padded == INR_SEARCH_GROUP) {
        where[i] = mine;
        continue;
      }
      const __m256i score = _mm256_srai_epi32(least[i], 4);
      const __m256i numbered = _mm256_add_epi32(mine, _mm256_set1_epi32(group));
      if (group == 0) {
        best[i] = score, where[i] = numbered;
      } else {
        const __m256i less = _mm256_cmpgt_epi32(best[i], score);
        best[i] = _mm256_min_epi32(best[i], score);
        where[i] = _mm256_blendv_epi8(where[i], numbered, less);
      }
    }
  }
}

INR_SEARCH_FOR_AVX2 INR_SEARCH_INLINE void inr_search_block_avx2(
    const int32_t *q, const int16_t *c, const int32_t *keys, int padded, int words, uint8_t *out) {
  __m256i where[4];
  if (padded == INR_SEARCH_GROUP)
    inr_search_some_avx2(q, c, keys, INR_SEARCH_GROUP, words, where);
  else
    inr_search_some_avx2(q, c, keys, padded, words, where);
  inr_search_bytes_avx2(where, out);
}

/* A sum and two products of 16-bit numbers; in one instruction where the processor has it. */
#define INR_SEARCH_TWO(SUM, A, B) _mm512_add_epi32(SUM, _mm512_madd_epi16(A, B))
#define INR_SEARCH_TWO_VNNI(SUM, A, B) _mm512_dpwssd_epi32(SUM, A, B)

/* One codebook, 32 rows. */
#define INR_SEARCH_BLOCK_AVX512(NAME, TARGET, TWO)                                                \
  TARGET INR_SEARCH_INLINE void NAME##_some(const int32_t *q, const int16_t *c,                   \
                                            const int32_t *keys, int padded, int words,           \
                                            uint8_t *out) {                                       \
    const __m512i number = _mm512_set1_epi32(15);                                                 \
    __m512i best[2], where[2];                                                                    \
    for (int group = 0; group < padded; group += INR_SEARCH_GROUP) {                              \
      __m512i least[2] = {_mm512_set1_epi32(INT32_MAX), _mm512_set1_epi32(INT32_MAX)};            \
      for (int k = group; k < group + INR_SEARCH_GROUP; k++) {                                    \
        __m512i key[2] = {_mm512_set1_epi32(keys[k]), _mm512_set1_epi32(keys[k])};                \
        for (int word = 0; word < words; word++) {                                                \
          const __m512i factor = _mm512_set1_epi32(inr_search_word(c + 2 * (k * words + word)));  \
          for (int i = 0; i < 2; i++) {                                                           \
            const __m512i rows = _mm512_loadu_si512(q + word * INR_SEARCH_ROWS + 16 * i);         \
            key[i] = TWO(key[i], rows, factor);                                                   \
          }                                                                                       \
        }                                                                                         \
        for (int i = 0; i < 2; i++) least[i] = _mm512_min_epi32(least[i], key[i]);                \
      }                                                                                           \
      for (int i = 0; i < 2; i++) {                                                               \
        const __m512i mine = _mm512_and_si512(least[i], number);                                  \
        if (padded == INR_SEARCH_GROUP) {                                                         \
          where[i] = mine;                                                                        \
          continue;                                                                               \
        }                                                                                         \
        const __m512i score = _mm512_srai_epi32(least[i], 4);                                     \
        const __m512i numbered = _mm512_add_epi32(mine, _mm512_set1_epi32(group));                \
        if (group == 0) {                                                                         \
          best[i] = score, where[i] = numbered;                                                   \
        } else {                                                                                  \
          const __mmask16 less = _mm512_cmplt_epi32_mask(score, best[i]);                         \
          best[i] = _mm512_min_epi32(best[i], score);                                             \
          where[i] = _mm512_mask_mov_epi32(where[i], less, numbered);                             \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    for (int i = 0; i < 2; i++)                                                                   \
      _mm_storeu_si128((__m128i *)(out + 16 * i), _mm512_cvtepi32_epi8(where[i]));                \
  }                                                                                               \
  TARGET INR_SEARCH_INLINE void NAME(const int32_t *q, const int16_t *c, const int32_t *keys,     \
                                     int padded, int words, uint8_t *out) {                       \
    if (padded == INR_SEARCH_GROUP)                                                               \
      NAME##_some(q, c, keys, INR_SEARCH_GROUP, words, out);                                      \
    else                                                                                          \
      NAME##_some(q, c, keys, padded, words, out);                                                \
  }

INR_SEARCH_BLOCK_AVX512(inr_search_block_avx512, INR_SEARCH_FOR_AVX512, INR_SEARCH_TWO)
INR_SEARCH_BLOCK_AVX512(inr_search_block_vnni, INR_SEARCH_FOR_VNNI, INR_SEARCH_TWO_VNNI)
#undef INR_SEARCH_BLOCK_AVX512

#define INR_SEARCH_NEAREST(NAME, TARGET, BLOCK)                                                   \
  TARGET static inline void NAME(const inr_search *s, const int32_t *words, uint8_t *indices) {   \
    const int n = s->words;                                                                       \
    for (int block = 0; block < s->blocks; block++) {                                             \
      const int32_t *q = words + (size_t)block * n * INR_SEARCH_ROWS;                             \
      const int32_t *keys = s->keys + (size_t)block * s->padded;                                  \
      const int16_t *c = s->centroids + (size_t)block * s->padded * n * 2;                        \
      uint8_t *out = indices + (size_t)block * INR_SEARCH_ROWS;                                   \
      switch (n) {                                                                                \
        case 1: BLOCK(q, c, keys, s->padded, 1, out); break;                                      \
        case 2: BLOCK(q, c, keys, s->padded, 2, out); break;                                      \
        case 3: BLOCK(q, c, keys, s->padded, 3, out); break;                                      \
        case 4: BLOCK(q, c, keys, s->padded, 4, out); break;                                      \
        default: BLOCK(q, c, keys, s->padded, n, out);                                            \
      }                                                                                           \
    }                                                                                             \
  }

INR_SEARCH_NEAREST(inr_search_nearest_avx2, INR_SEARCH_FOR_AVX2, inr_search_block_avx2)
INR_SEARCH_NEAREST(inr_search_nearest_avx512, INR_SEARCH_FOR_AVX512, inr_search_block_avx512)
INR_SEARCH_NEAREST(inr_search_nearest_vnni, INR_SEARCH_FOR_VNNI, inr_search_block_vnni)
#undef INR_SEARCH_NEAREST

/* bytes[column][row] to out[row][column], 16 by 16. */
static inline void inr_search_store_sse2(const uint8_t *bytes, int rows, int columns,
                                         uint8_t *out) {
  int column = 0;
  for (; column + 16 <= columns; column += 16)
    for (int base = 0; base < rows; base += 16) {
      __m128i r[16], t[16];
      for (int i = 0; i < 16; i++)
        r[i] = _mm_loadu_si128(
            (const __m128i *)(bytes + (size_t)(column + i) * INR_SEARCH_ROWS + base));
      /* Four times "interleave i with i + 8" turn 16 x 16 over. */
      for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < 8; i++) {
          t[2 * i] = _mm_unpacklo_epi8(r[i], r[i + 8]);
          t[2 * i + 1] = _mm_unpackhi_epi8(r[i], r[i + 8]);
        }
        memcpy(r, t, sizeof r);
      }
      for (int i = 0; i < 16 && base + i < rows; i++)
        _mm_storeu_si128((__m128i *)(out + (size_t)(base + i) * columns + column), r[i]);
    }
  inr_search_store(bytes, rows, column, columns, out);
}

#endif

/* The fastest path of this machine. */
static inline int inr_search_level(void) {
#if INR_SEARCH_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
    return __builtin_cpu_supports("avx512vnni") ? INR_SEARCH_VNNI : INR_SEARCH_AVX512;
  if (__builtin_cpu_supports("avx2")) return INR_SEARCH_AVX2;
#endif
  return INR_SEARCH_C;
}

/*
 * Indices of `rows` rows of H activations: rows x CB bytes, or, `packed` (K <= 16 only), rows x
 * ceil(CB / 2) bytes of two indices, the even codebook's in the lower half. `level` is
 * INR_SEARCH_BEST or a path that the machine has. Several threads may share `s`.
 *
 * Returns 0, or -1 where memory is short, or the level or the packing is not to be had.
 */
static inline int inr_search_rows(const inr_search *s, const float *x, size_t rows, uint8_t *out,
                           int packed, int level) {
  const int best = inr_search_level();
  if (level == INR_SEARCH_BEST) level = best;
  if (level < 0 || level > best || (packed && s->count > 16)) return -1;
  if (!inr_search_keyed(s)) level = INR_SEARCH_C;
  const size_t columns = packed ? (s->blocks + 1) / 2 : s->blocks;
  float *wide = calloc((size_t)s->slots * 8, sizeof *wide);
  void *room = calloc((size_t)s->slots * INR_SEARCH_ROWS * 2 + 64, 1);
  uint8_t *indices = malloc((size_t)s->blocks * INR_SEARCH_ROWS);
  if (!wide || !room || !indices) {
    free(wide), free(room), free(indices);
    return -1;
  }
  /* Lines of the cache: no vector lies across two. */
  void *words = (char *)room + (64 - (uintptr_t)room % 64) % 64;
  for (size_t first = 0; first < rows; first += INR_SEARCH_ROWS) {
    const int now = rows - first < INR_SEARCH_ROWS ? (int)(rows - first) : INR_SEARCH_ROWS;
    const float *from = x + first * s->width;
    uint8_t *to = out + first * columns;
    switch (level) {
#if INR_SEARCH_X86
      case INR_SEARCH_VNNI:
        inr_search_tile_avx2(s, from, now, wide, words);
        inr_search_nearest_vnni(s, words, indices);
        break;
      case INR_SEARCH_AVX512:
        inr_search_tile_avx2(s, from, now, wide, words);
        inr_search_nearest_avx512(s, words, indices);
        break;
      case INR_SEARCH_AVX2:
        inr_search_tile_avx2(s, from, now, wide, words);
        inr_search_nearest_avx2(s, words, indices);
        break;
#endif
      default:
        inr_search_tile(s, from, now, wide, words);
        inr_search_nearest(s, words, indices);
    }
    if (packed) inr_search_pack(s, indices);
#if INR_SEARCH_X86
    inr_search_store_sse2(indices, now, (int)columns, to);
#else
    inr_search_store(indices, now, 0, (int)columns, to);
#endif
  }
  free(wide), free(room), free(indices);
  return 0;
}

#endif

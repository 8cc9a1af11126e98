/* What the extensions share: CRC32C, and the creation of named tuples. */
#include "_native.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

/* CRC32C: by table, or by the CPU's instruction ------------------------------------------------- */

static uint32_t crc_table[8][256];

/* Three parallel lanes for long inputs: long lanes first, short ones for the rest of a record of 1 KiB. */
enum { LONG_LANE = 256, SHORT_LANE = 64 };

/* The effect of appended zeros on each byte of a checksum. */
typedef uint32_t LaterTable[4][256];
static LaterTable after_long_lane, after_short_lane;

static inline uint32_t load_u32_low_first(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

uint32_t advance_by_table(uint32_t crc, const uint8_t *at, size_t length)
{
    for (; length >= 8; at += 8, length -= 8) {
        uint32_t near = crc ^ load_u32_low_first(at);
        uint32_t far = load_u32_low_first(at + 4);
        crc = crc_table[7][near & 255] ^ crc_table[6][near >> 8 & 255] ^ crc_table[5][near >> 16 & 255] ^ crc_table[4][near >> 24] ^
              crc_table[3][far & 255] ^ crc_table[2][far >> 8 & 255] ^ crc_table[1][far >> 16 & 255] ^ crc_table[0][far >> 24];
    }
    for (; length > 0; at++, length--)
        crc = crc_table[0][(crc ^ *at) & 255] ^ crc >> 8;
    return crc;
}

static void fill_later_table(LaterTable table, size_t zero_count)
{
    static const uint8_t zeros[LONG_LANE];

    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[place][byte] = advance_by_table(byte << 8 * place, zeros, zero_count);
}

static void fill_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc_table[0][byte] = crc;
    }
    for (int distance = 1; distance < 8; distance++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_table[distance - 1][byte];
            crc_table[distance][byte] = crc_table[0][crc & 255] ^ crc >> 8;
        }
    fill_later_table(after_long_lane, LONG_LANE);
    fill_later_table(after_short_lane, SHORT_LANE);
}

#if defined(__x86_64__)
#define HAS_CRC_INSTRUCTION __builtin_cpu_supports("sse4.2")
#define WITH_CRC_INSTRUCTION __attribute__((target("sse4.2")))
#define CRC_OF_EIGHT(crc, word) _mm_crc32_u64(crc, word)
typedef uint64_t Running; /* the width of the instruction: truncation would cost a cycle each time */
#define CRC_OF_ONE(crc, byte) _mm_crc32_u8(crc, byte)
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define HAS_CRC_INSTRUCTION true
#define WITH_CRC_INSTRUCTION
#define CRC_OF_EIGHT(crc, word) __crc32cd(crc, word)
typedef uint32_t Running;
#define CRC_OF_ONE(crc, byte) __crc32cb(crc, byte)
#endif

#ifdef HAS_CRC_INSTRUCTION
static inline uint64_t load_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint32_t later(const LaterTable table, uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

/* The instruction has a latency of three cycles and a throughput of one: three lanes keep it busy. */
WITH_CRC_INSTRUCTION static inline uint32_t advance_by_lanes(uint32_t crc, const uint8_t *at, size_t lane, const LaterTable after_lane)
{
    Running first = crc, second = 0, third = 0;

    for (const uint8_t *end = at + lane; at < end; at += 8) {
        first = CRC_OF_EIGHT(first, load_word(at));
        second = CRC_OF_EIGHT(second, load_word(at + lane));
        third = CRC_OF_EIGHT(third, load_word(at + 2 * lane));
    }
    return later(after_lane, later(after_lane, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

WITH_CRC_INSTRUCTION static uint32_t advance_by_instruction(uint32_t crc, const uint8_t *at, size_t length)
{
    for (; length >= 3 * LONG_LANE; at += 3 * LONG_LANE, length -= 3 * LONG_LANE)
        crc = advance_by_lanes(crc, at, LONG_LANE, after_long_lane);
    for (; length >= 3 * SHORT_LANE; at += 3 * SHORT_LANE, length -= 3 * SHORT_LANE)
        crc = advance_by_lanes(crc, at, SHORT_LANE, after_short_lane);
    for (; length >= 8; at += 8, length -= 8)
        crc = (uint32_t)CRC_OF_EIGHT(crc, load_word(at));
    for (; length > 0; at++, length--)
        crc = CRC_OF_ONE(crc, *at);
    return crc;
}
#endif

uint32_t (*advance)(uint32_t crc, const uint8_t *at, size_t length) = advance_by_table;

void prepare_crc32c(void)
{
    fill_crc_tables();
#ifdef HAS_CRC_INSTRUCTION
    if (HAS_CRC_INSTRUCTION)
        advance = advance_by_instruction;
#endif
}

/* Named tuples ---------------------------------------------------------------------------------- */

bool is_named_tuple(PyTypeObject *type)
{
    if (type != &PyTuple_Type && PyType_IsSubtype(type, &PyTuple_Type))
        return true;
    PyErr_SetString(PyExc_TypeError, "pass a type of named tuples");
    return false;
}

/* Uses tuple.__new__, which works in every version of Python. */
PyObject *named_tuple(PyTypeObject *type, PyObject *const *values, Py_ssize_t count)
{
    PyObject *plain = PyTuple_New(count), *arguments, *result = NULL;

    for (Py_ssize_t number = 0; number < count; number++)
        if (plain == NULL)
            Py_DECREF(values[number]);
        else
            PyTuple_SetItem(plain, number, values[number]);
    if (plain != NULL && (arguments = PyTuple_Pack(1, plain)) != NULL) {
        newfunc make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
        result = make(type, arguments, NULL);
        Py_DECREF(arguments);
    }
    Py_XDECREF(plain);
    return result;
}

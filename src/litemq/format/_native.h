/* Shared by the files of the extension: the record layout, byte access, CRC32C, and the release of the
 * interpreter's lock during long loops. */
#ifndef LITEMQ_NATIVE_H
#define LITEMQ_NATIVE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Hide the shared names: other libraries of the process may define the same. */
#pragma GCC visibility push(hidden)

/* The layout: see record.py. */
enum {
    FIXED_BYTES = 144,
    PRODUCER_CRC_AT = 8,
    STAMP_AT = 12,
    STAMPED_BYTES_AT = 16,
    COMMITLOG_OFFSET_AT = 16,
    QUEUE_OFFSET_AT = 24,
    STORE_TIMESTAMP_AT = 32,
    ORIGIN_AT = 40,
    TOPIC_ID_AT = 48,
    QUEUE_ID_AT = 52,
    KIND_AT = 60,
    CONSUME_COUNT_AT = 62,
    PRODUCER_BYTES_AT = 64,
    BORN_TIMESTAMP_AT = 64,
    DELAY_TIME_AT = 72,
    EXPIRE_AT_AT = 80,
    PRODUCER_ID_AT = 88,
    SEQUENCE_AT = 96,
    TAG_HASH_AT = 104,
    FLAGS_AT = 108,
    TYPE_AT = 112,
    PRIORITY_AT = 113,
    RELIABILITY_AT = 114,
    SHORT_LENGTHS_AT = 116,
    LONG_LENGTHS_AT = 128,
};
#define MAGIC 0x4C4D5102u
#define SEVERAL_TAGS 0xFFFFFFFFu
enum { CODEC_MASK = 7, ENCRYPTED = 8 };

/* The limits: see limits.py and types.py. */
#define LATEST_TIME_MS 253402300799999u
enum {
    MAX_MESSAGE_ID_BYTES = 64,
    MAX_TOPIC_BYTES = 134,
    MAX_TAGS = 64,
    MAX_TAG_BYTES = 255,
    MAX_KEYS = 64,
    MAX_KEY_BYTES = 255,
    MAX_PROPERTIES_BYTES = 32 * 1024,
};

/* Bytes ----------------------------------------------------------------------------------------- */

static inline uint32_t load_u16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static inline uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t load_u64(const uint8_t *at)
{
    return (uint64_t)load_u32(at) << 32 | load_u32(at + 4);
}

static inline void store_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void store_u64(uint8_t *at, uint64_t value)
{
    store_u32(at, (uint32_t)(value >> 32));
    store_u32(at + 4, (uint32_t)value);
}

/* Copy bytes that another thread may change: the compiler must not read the original again. */
static inline void read_once(void *copy, const void *original, size_t length)
{
    memcpy(copy, original, length);
    __asm__ volatile("" : : "r"(copy) : "memory");
}

/* CRC32C ---------------------------------------------------------------------------------------- */

/* Call it once, before the first checksum. */
void prepare_crc32c(void);

uint32_t advance_by_table(uint32_t crc, const uint8_t *at, size_t length);
extern uint32_t (*advance)(uint32_t crc, const uint8_t *at, size_t length); /* uses the CPU's instruction, if any */

/* Continue the checksum ``before`` (0 at the start) with these bytes. */
static inline uint32_t crc32c(uint32_t before, const uint8_t *at, size_t length)
{
    return ~advance(~before, at, length);
}

/* Arguments from Python ------------------------------------------------------------------------- */

/* A one-dimensional array of native integers of one width. */
typedef struct {
    Py_buffer view;
    Py_ssize_t count;
} Numbers;

static inline int64_t long_at(const Numbers *numbers, Py_ssize_t number)
{
    return ((volatile const int64_t *)numbers->view.buf)[number];
}

/* One number for all records, or one for each. */
typedef struct {
    bool is_one;
    int64_t one;
    Numbers each;
} Column;

static inline int64_t value_at(const Column *column, Py_ssize_t number)
{
    return column->is_one ? column->one : long_at(&column->each, number);
}

/* The interpreter's lock ------------------------------------------------------------------------ */

/* A loop over fewer bytes takes 0.1 ms, less than it takes to get the lock back. */
enum { LONG_LOOP_BYTES = 256 * 1024 };

/* Release the lock for a loop over ``bytes`` bytes, if it takes long. */
static inline PyThreadState *begin_loop(Py_ssize_t bytes)
{
    return bytes > LONG_LOOP_BYTES ? PyEval_SaveThread() : NULL;
}

static inline void end_loop(PyThreadState *state)
{
    if (state != NULL)
        PyEval_RestoreThread(state);
}

/* One record ------------------------------------------------------------------------------------ */

enum Part { MESSAGE_ID, TOPIC, TRANSACTION_ID, SHARDING_KEY, BORN_HOST, TAGS, KEYS, PROPERTIES, BODY, PARTS };

typedef struct {
    const uint8_t *bytes;
    uint8_t fixed[FIXED_BYTES]; /* a copy, read once */
    int64_t size;
    int64_t begins[PARTS + 1]; /* from the record's first byte; the last is the end of the body */
} Record;

/* True if a fixed part at ``start`` is inside the buffer. */
static inline bool can_be_record(const Py_buffer *buffer, int64_t start)
{
    return start >= 0 && start <= buffer->len - FIXED_BYTES;
}

/* Find the record at ``start``. True if it is inside the buffer and its parts are inside the record; nothing
 * else is checked. */
bool find_record(const Py_buffer *buffer, int64_t start, Record *record);

typedef struct {
    const uint8_t *begin, *end;
} Span;

static inline Span part_of(const Record *record, enum Part part)
{
    return (Span){record->bytes + record->begins[part], record->bytes + record->begins[part + 1]};
}

static inline int64_t length_of(Span span)
{
    return span.end - span.begin;
}

static inline bool are_same(Span one, Span other)
{
    return length_of(one) == length_of(other) && memcmp(one.begin, other.begin, (size_t)length_of(one)) == 0;
}

/* Remove the next string from ``list``. False if the list has no complete string left. */
static inline bool next_string(Span *list, Span *string)
{
    uint8_t prefix[2];

    if (length_of(*list) < 2)
        return false;
    read_once(prefix, list->begin, sizeof prefix);
    string->begin = list->begin + 2;
    if (load_u16(prefix) > list->end - string->begin)
        return false;
    string->end = string->begin + load_u16(prefix);
    list->begin = string->end;
    return true;
}

/* Validation ------------------------------------------------------------------------------------ */

typedef struct {
    bool stored; /* stamped by a broker; else as a producer sent it */
    bool verify_crc;
    int64_t max_record_bytes;
} Rules;

/* True if the record is valid; false means unknown. */
bool record_is_sound(const Record *record, const Rules *rules);

/* True if size and magic are those of a record that ends within ``left`` bytes. */
static inline bool can_be_head(const uint8_t *head, int64_t max_record_bytes, int64_t left)
{
    int64_t size = load_u32(head);

    return load_u32(head + 4) == MAGIC && size >= FIXED_BYTES && size % 8 == 0 && size <= max_record_bytes && size <= left;
}

/* A chain of records, as far as their sizes and magics lead. ``fixed`` is a copy of the current one's fixed part. */
typedef struct {
    const uint8_t *data;
    int64_t at, end, max_record_bytes; /* ``at`` is the end of the current record */
    uint8_t fixed[FIXED_BYTES];
} RecordChain;

/* Move to the next record. False at the end of the chain. */
static inline bool next_in_chain(RecordChain *chain)
{
    if (chain->end - chain->at < FIXED_BYTES)
        return false;
    read_once(chain->fixed, chain->data + chain->at, FIXED_BYTES);
    if (!can_be_head(chain->fixed, chain->max_record_bytes, chain->end - chain->at))
        return false;
    chain->at += load_u32(chain->fixed);
    return true;
}

/* True if a record, whose size is right, is intact, and was stored at these offsets of this queue. The other
 * rules were checked before it was stored. */
bool is_stored_at(const Record *record, int64_t log_offset, int64_t queue_offset, uint32_t topic_id, uint32_t queue_id);

/* Stamps and queue entries ---------------------------------------------------------------------- */

/* In the order of Python's arguments. */
enum StampField { COMMITLOG_OFFSET, QUEUE_OFFSET, TOPIC_ID, QUEUE_ID, STORE_TIMESTAMP, EPOCH, KIND, ORIGIN, CONSUME_COUNT, STAMP_FIELDS };

void stamp_record(uint8_t *record, const Column fields[STAMP_FIELDS], Py_ssize_t number);

enum { ENTRY_BYTES = 24 };

/* A queue entry, see stamp.py. */
void make_entry(uint8_t *entry, const uint8_t *record, int64_t log_offset, int64_t store_timestamp);

/* The producer runs of records, whose fixed parts are inside the buffer: see _native.pyi. */
PyObject *stretches_of(const Py_buffer *buffer, const Numbers *starts, const Column *queue_ids, const Column *queue_offsets, int64_t topic_id,
                       int64_t store_timestamp);

/* Named tuples ---------------------------------------------------------------------------------- */

/* True if the type is a named tuple; else an error is set. */
bool is_named_tuple(PyTypeObject *type);

/* Create a tuple of a type that is_named_tuple accepted. Steals the values, also on failure. */
PyObject *named_tuple(PyTypeObject *type, PyObject *const *values, Py_ssize_t count);

/* Python functions, described in _native.pyi ---------------------------------------------------- */

PyObject *py_encode(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_decode_messages(PyObject *module, PyObject *args);
PyObject *py_split_frames(PyObject *module, PyObject *args);
PyObject *py_pack_sent_answers(PyObject *module, PyObject *args);
PyObject *py_stamp_sends(PyObject *module, PyObject *args);
PyObject *py_read_entries(PyObject *module, PyObject *args);
PyObject *py_extent(PyObject *module, PyObject *args);

#pragma GCC visibility pop

#endif

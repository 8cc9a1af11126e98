/* Loops of litemq.format over the records of a batch.
 *
 * Every function has an equivalent in Python, which is the reference and replaces it if the extension is not
 * built. A function here only confirms: if a record is not certainly valid, it returns no verdict, and Python
 * decides and explains. So nothing here raises for bytes that a producer may have sent.
 *
 * All inputs are untrusted, including the starts of records: every position is checked against the end of the
 * buffer before it is read. Long loops release the interpreter's lock, so another thread may write into the
 * buffer. Therefore values that decide where to read next are read once.
 *
 * Uses the limited API of Python 3.11: one build works with every later version.
 */
#include "_native.h"

#include <stdlib.h>

/* Arguments from Python ------------------------------------------------------------------------- */

static int take_numbers(PyObject *object, Numbers *numbers, int flags, Py_ssize_t width, const char *formats)
{
    if (object == NULL) { /* another argument was refused */
        PyBuffer_Release(&numbers->view);
        return 0;
    }
    if (PyObject_GetBuffer(object, &numbers->view, flags | PyBUF_ND | PyBUF_FORMAT) != 0)
        return 0;
    const char *format = numbers->view.format;
    bool fits = numbers->view.ndim == 1 && numbers->view.itemsize == width && format != NULL && format[0] != '\0' && format[1] == '\0' &&
                strchr(formats, format[0]) != NULL;
    if (!fits) {
        PyBuffer_Release(&numbers->view);
        PyErr_SetString(PyExc_TypeError, "pass a contiguous array with one dimension, of the type that the stub says");
        return 0;
    }
    numbers->count = numbers->view.shape[0];
    return Py_CLEANUP_SUPPORTED;
}

static int take_longs(PyObject *object, void *numbers)
{
    return take_numbers(object, numbers, PyBUF_SIMPLE, 8, "lq");
}

static int take_u32s(PyObject *object, void *numbers)
{
    return take_numbers(object, numbers, PyBUF_SIMPLE, 4, "IL");
}

static int take_u32s_to_fill(PyObject *object, void *numbers)
{
    return take_numbers(object, numbers, PyBUF_WRITABLE, 4, "IL");
}

static inline uint32_t *u32s_of(const Numbers *numbers)
{
    return numbers->view.buf;
}

static void release_column(Column *column)
{
    if (!column->is_one)
        PyBuffer_Release(&column->each.view);
}

static bool is_in_range(const Column *column, int64_t least, int64_t most)
{
    Py_ssize_t count = column->is_one ? 1 : column->each.count;
    bool inside = true;
    for (Py_ssize_t number = 0; number < count; number++)
        inside &= value_at(column, number) >= least && value_at(column, number) <= most;
    return inside;
}

/* Read a column of ``count`` values within a range. On failure nothing is kept and no error is set: Python
 * explains. */
static bool take_column(PyObject *object, Py_ssize_t count, int64_t least, int64_t most, Column *column)
{
    column->is_one = PyLong_Check(object);
    if (column->is_one) {
        column->one = PyLong_AsLongLong(object);
        if (column->one == -1 && PyErr_Occurred() != NULL) {
            PyErr_Clear();
            return false;
        }
    } else if (!take_longs(object, &column->each)) {
        PyErr_Clear();
        return false;
    }
    if ((column->is_one || column->each.count == count) && is_in_range(column, least, most))
        return true;
    release_column(column);
    return false;
}

/* A growing array of numbers, owned and freed by the caller. */
typedef struct {
    void *items;
    size_t count, room;
} Growing;

static bool make_room(Growing *list, size_t width)
{
    if (list->count < list->room)
        return true;
    size_t room = list->room ? 2 * list->room : 1024;
    void *items = realloc(list->items, room * width);
    if (items == NULL)
        return false;
    list->items = items;
    list->room = room;
    return true;
}

static bool push_u32(Growing *list, uint32_t value)
{
    if (!make_room(list, sizeof value))
        return false;
    ((uint32_t *)list->items)[list->count++] = value;
    return true;
}

static bool push_long(Growing *list, int64_t value)
{
    if (!make_room(list, sizeof value))
        return false;
    ((int64_t *)list->items)[list->count++] = value;
    return true;
}

static PyObject *as_bytes(const Growing *list, size_t width)
{
    return PyByteArray_FromStringAndSize(list->items, (Py_ssize_t)(list->count * width));
}

/* Validation ------------------------------------------------------------------------------------ */

enum Verdict { NO_VERDICT, SOUND, ALIKE };

/* ALIKE: all records have the same tags and the same properties. */
static enum Verdict examine_records(const Py_buffer *buffer, const Numbers *starts, const Rules *rules)
{
    Record first, other, *record = &first;
    bool alike = true;

    for (Py_ssize_t number = 0; number < starts->count; number++, record = &other) {
        if (!find_record(buffer, long_at(starts, number), record) || !record_is_sound(record, rules))
            return NO_VERDICT;
        alike = alike && are_same(part_of(record, TAGS), part_of(&first, TAGS)) && are_same(part_of(record, PROPERTIES), part_of(&first, PROPERTIES));
    }
    return alike ? ALIKE : SOUND;
}

/* The expected positions of records of one queue: log offsets, and consecutive queue offsets. */
typedef struct {
    const Numbers *log_offsets;
    int64_t first;
    uint32_t topic_id, queue_id;
} Places;

/* Count the leading intact records: they fill the buffer, and positions and checksums are right. The other
 * rules were checked before they were stored. */
static Py_ssize_t count_intact(const Py_buffer *buffer, const Numbers *starts, const Places *places)
{
    Record record;

    for (Py_ssize_t number = 0; number < starts->count; number++) {
        int64_t start = long_at(starts, number), end = number + 1 < starts->count ? long_at(starts, number + 1) : buffer->len;
        if (!can_be_record(buffer, start))
            return number;
        record.bytes = (const uint8_t *)buffer->buf + start;
        read_once(record.fixed, record.bytes, FIXED_BYTES);
        record.size = load_u32(record.fixed);
        if (record.size < FIXED_BYTES || record.size > buffer->len - start || record.size != end - start ||
            !is_stored_at(&record, long_at(places->log_offsets, number), places->first + number, places->topic_id, places->queue_id))
            return number;
    }
    return starts->count;
}

/* Stamps and queue entries ---------------------------------------------------------------------- */

static const struct {
    int64_t least, most;
} field_ranges[STAMP_FIELDS] = {
    [COMMITLOG_OFFSET] = {0, INT64_MAX},
    [QUEUE_OFFSET] = {0, INT64_MAX},
    [TOPIC_ID] = {0, UINT32_MAX},
    [QUEUE_ID] = {0, UINT32_MAX},
    [STORE_TIMESTAMP] = {0, LATEST_TIME_MS},
    [EPOCH] = {0, UINT32_MAX},
    [KIND] = {0, 7},
    [ORIGIN] = {-1, INT64_MAX},
    [CONSUME_COUNT] = {0, UINT16_MAX},
};

static bool can_all_be_records(const Py_buffer *buffer, const Numbers *starts)
{
    for (Py_ssize_t number = 0; number < starts->count; number++)
        if (!can_be_record(buffer, long_at(starts, number)))
            return false;
    return true;
}

void stamp_record(uint8_t *record, const Column fields[STAMP_FIELDS], Py_ssize_t number)
{
    uint8_t stamp[PRODUCER_BYTES_AT - STAMP_AT], *stamped = stamp + 4;

    store_u64(stamped, (uint64_t)value_at(&fields[COMMITLOG_OFFSET], number));
    store_u64(stamped + 8, (uint64_t)value_at(&fields[QUEUE_OFFSET], number));
    store_u64(stamped + 16, (uint64_t)value_at(&fields[STORE_TIMESTAMP], number));
    store_u64(stamped + 24, (uint64_t)value_at(&fields[ORIGIN], number));
    store_u32(stamped + 32, (uint32_t)value_at(&fields[TOPIC_ID], number));
    store_u32(stamped + 36, (uint32_t)value_at(&fields[QUEUE_ID], number));
    store_u32(stamped + 40, (uint32_t)value_at(&fields[EPOCH], number));
    store_u32(stamped + 44, (uint32_t)value_at(&fields[KIND], number) << 24 | (uint32_t)value_at(&fields[CONSUME_COUNT], number));
    store_u32(stamp, crc32c(0, stamped, sizeof stamp - 4));
    memcpy(record + STAMP_AT, stamp, sizeof stamp);
}

/* Stamp all records, or none. */
static bool stamp_records(const Py_buffer *buffer, const Numbers *starts, const Column fields[STAMP_FIELDS])
{
    if (!can_all_be_records(buffer, starts))
        return false;
    for (Py_ssize_t number = 0; number < starts->count; number++) {
        int64_t start = long_at(starts, number);
        if (can_be_record(buffer, start)) /* it could, unless another thread changed it */
            stamp_record((uint8_t *)buffer->buf + start, fields, number);
    }
    return true;
}

void make_entry(uint8_t *entry, const uint8_t *record, int64_t log_offset, int64_t store_timestamp)
{
    store_u64(entry, (uint64_t)log_offset);
    memcpy(entry + 8, record, 4);
    memcpy(entry + 12, record + TAG_HASH_AT, 4);
    store_u64(entry + 16, (uint64_t)store_timestamp);
}

/* In the order of the records, or in the given order. */
static bool make_entries(const Py_buffer *buffer, const Numbers *starts, const Column *order, const Column *offsets, const Column *times, uint8_t *entries)
{
    for (Py_ssize_t at = 0; at < starts->count; at++) {
        Py_ssize_t number = order != NULL ? (Py_ssize_t)value_at(order, at) : at;
        if (number < 0 || number >= starts->count)
            return false;
        int64_t start = long_at(starts, number);
        if (!can_be_record(buffer, start))
            return false;
        make_entry(entries + ENTRY_BYTES * at, (const uint8_t *)buffer->buf + start, value_at(offsets, number), value_at(times, number));
    }
    return true;
}

/* Producer runs --------------------------------------------------------------------------------- */

/* A producer and a queue, with their first and last record in a batch. */
typedef struct {
    uint64_t producer_id;
    int64_t queue_id;
    Py_ssize_t first, last;
} Pair;

typedef struct {
    Pair *pairs;
    Py_ssize_t *following; /* the next record of the same pair, -1: none */
    uint32_t *slots;       /* a hash table of pair numbers, from 1 */
    uint64_t mask;
    Py_ssize_t count, steps_left;
} Pairs;

static void free_pairs(Pairs *found)
{
    free(found->pairs);
    free(found->following);
    free(found->slots);
}

static bool make_pairs(Pairs *found, Py_ssize_t records)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)records)
        slots *= 2;
    found->mask = slots - 1;
    found->steps_left = 16 * records; /* more steps mean deliberate collisions */
    found->pairs = malloc((size_t)records * sizeof(Pair));
    found->following = malloc((size_t)records * sizeof(Py_ssize_t));
    found->slots = calloc(slots, sizeof(uint32_t));
    return found->pairs != NULL && found->following != NULL && found->slots != NULL;
}

/* Find or add a pair. NULL if that takes too many steps. */
static Pair *find_pair(Pairs *found, uint64_t producer_id, int64_t queue_id)
{
    uint64_t hash = (producer_id ^ (uint64_t)queue_id << 32) * 0x9E3779B97F4A7C15u;

    for (uint64_t slot = hash >> 32;; slot++) {
        uint32_t number = found->slots[slot & found->mask];
        if (number == 0) {
            Pair *pair = &found->pairs[found->count++];
            found->slots[slot & found->mask] = (uint32_t)found->count;
            *pair = (Pair){producer_id, queue_id, -1, -1};
            return pair;
        }
        Pair *pair = &found->pairs[number - 1];
        if (pair->producer_id == producer_id && pair->queue_id == queue_id)
            return pair;
        if (found->steps_left-- == 0)
            return NULL;
    }
}

/* Add every record with a producer to the list of its pair. */
static bool group_by_pair(Pairs *found, const Py_buffer *buffer, const Numbers *starts, const Column *queue_ids)
{
    Pair *pair = NULL;

    for (Py_ssize_t number = 0; number < starts->count; number++) {
        const uint8_t *record = (const uint8_t *)buffer->buf + long_at(starts, number);
        uint64_t producer_id = load_u64(record + PRODUCER_ID_AT);
        int64_t queue_id = value_at(queue_ids, number);
        if (producer_id == 0)
            continue;
        if (load_u64(record + SEQUENCE_AT) >= INT64_MAX)
            return false;
        if (pair == NULL || pair->producer_id != producer_id || pair->queue_id != queue_id)
            pair = find_pair(found, producer_id, queue_id);
        if (pair == NULL)
            return false;
        if (pair->first < 0)
            pair->first = number;
        else
            found->following[pair->last] = number;
        found->following[number] = -1;
        pair->last = number;
    }
    return true;
}

static bool has_producer(const Py_buffer *buffer, const Numbers *starts)
{
    for (Py_ssize_t number = 0; number < starts->count; number++)
        if (load_u64((const uint8_t *)buffer->buf + long_at(starts, number) + PRODUCER_ID_AT) != 0)
            return true;
    return false;
}

/* Append the runs of one pair to a list, and their spans to a table. */
static bool list_stretches(const Pairs *found, const Pair *pair, const Py_buffer *buffer, const Numbers *starts, const Column *queue_offsets,
                           int64_t topic_id, int64_t store_timestamp, PyObject *stretches, Growing *runs)
{
    int64_t sequence = 0, offset = 0;
    PyObject *key = Py_BuildValue("(KLL)", (unsigned long long)pair->producer_id, (long long)topic_id, (long long)pair->queue_id);
    bool fits = key != NULL;

    for (Py_ssize_t number = pair->first; fits && number >= 0; number = found->following[number]) {
        int64_t before = sequence, offset_before = offset;
        sequence = (int64_t)load_u64((const uint8_t *)buffer->buf + long_at(starts, number) + SEQUENCE_AT);
        offset = value_at(queue_offsets, number);
        bool begins = number == pair->first || sequence != before + 1;
        if (begins || offset != offset_before + 1)
            fits = push_long(runs, sequence) && push_long(runs, offset) && push_long(runs, store_timestamp);
        Py_ssize_t next = found->following[number];
        if (!fits) {
            PyErr_NoMemory();
        } else if (next < 0 || (int64_t)load_u64((const uint8_t *)buffer->buf + long_at(starts, next) + SEQUENCE_AT) != sequence + 1) {
            PyObject *stretch = Py_BuildValue("(OLn)", key, (long long)sequence + 1, (Py_ssize_t)runs->count);
            fits = stretch != NULL && PyList_Append(stretches, stretch) == 0;
            Py_XDECREF(stretch);
        }
    }
    Py_XDECREF(key);
    return fits;
}

/* The key index --------------------------------------------------------------------------------- */

typedef struct {
    Growing hashes, owners;
    Span topic;     /* of the previous record */
    uint32_t crc;   /* of that topic and '#' */
    bool no_memory; /* else false means an invalid record */
} KeyHashes;

static bool add_hash(KeyHashes *found, Span name, Py_ssize_t owner)
{
    if (length_of(name) == 0) /* not indexed */
        return true;
    uint32_t hash = crc32c(found->crc, name.begin, (size_t)length_of(name));
    found->no_memory = !push_u32(&found->hashes, hash) || !push_long(&found->owners, owner);
    return !found->no_memory;
}

/* Hash the record's id, then its keys. */
static bool hash_record(KeyHashes *found, const Record *record, Py_ssize_t owner)
{
    Span topic = part_of(record, TOPIC), keys = part_of(record, KEYS), key;

    if (owner == 0 || !are_same(topic, found->topic)) {
        found->crc = crc32c(crc32c(0, topic.begin, (size_t)length_of(topic)), (const uint8_t *)"#", 1);
        found->topic = topic;
    }
    if (!add_hash(found, part_of(record, MESSAGE_ID), owner))
        return false;
    while (keys.begin < keys.end)
        if (!next_string(&keys, &key) || !add_hash(found, key, owner))
            return false;
    return true;
}

static bool hash_records(const Py_buffer *buffer, const Numbers *starts, KeyHashes *found)
{
    Record record;

    for (Py_ssize_t number = 0; number < starts->count; number++)
        if (!find_record(buffer, long_at(starts, number), &record) || !hash_record(found, &record, number))
            return false;
    return true;
}

/* Prefetch slots this many entries ahead: a large index does not fit the cache. */
enum { SLOTS_AHEAD = 16 };

static void link_entries(uint32_t *slots, uint32_t slot_count, const uint32_t *hashes, Py_ssize_t count, uint32_t number, uint32_t *previous)
{
    for (Py_ssize_t entry = 0; entry < count; entry++, number++) {
        if (count - entry > SLOTS_AHEAD)
            __builtin_prefetch(&slots[hashes[entry + SLOTS_AHEAD] % slot_count], 1);
        uint32_t *slot = &slots[*(volatile const uint32_t *)&hashes[entry] % slot_count];
        previous[entry] = *slot;
        *slot = number;
    }
}

/* Python functions ------------------------------------------------------------------------------ */

static PyObject *py_crc32c(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned int before = 0;

    if (!PyArg_ParseTuple(args, "y*|I", &data, &before))
        return NULL;
    PyThreadState *state = begin_loop(data.len);
    uint32_t crc = crc32c(before, data.buf, (size_t)data.len);
    end_loop(state);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_crc32c_by_table(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned int before = 0;

    if (!PyArg_ParseTuple(args, "y*|I", &data, &before))
        return NULL;
    uint32_t crc = ~advance_by_table(~before, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static bool fill_crcs_of_strings(const Py_buffer *data, const Numbers *positions, const Numbers *lengths, uint32_t before, uint32_t *crcs)
{
    for (Py_ssize_t number = 0; number < positions->count; number++) {
        int64_t position = long_at(positions, number), length = long_at(lengths, number);
        if (position < 0 || length < 0 || position > data->len || length > data->len - position)
            return false;
        crcs[number] = crc32c(before, (const uint8_t *)data->buf + position, (size_t)length);
    }
    return true;
}

static PyObject *py_crc32c_of_strings(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Numbers positions, lengths, crcs;
    unsigned int before;
    bool inside = false;

    if (!PyArg_ParseTuple(args, "y*O&O&IO&", &data, take_longs, &positions, take_longs, &lengths, &before, take_u32s_to_fill, &crcs))
        return NULL;
    if (lengths.count == positions.count && crcs.count == positions.count) {
        PyThreadState *state = begin_loop(data.len);
        inside = fill_crcs_of_strings(&data, &positions, &lengths, before, u32s_of(&crcs));
        end_loop(state);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&positions.view);
    PyBuffer_Release(&lengths.view);
    PyBuffer_Release(&crcs.view);
    if (!inside)
        return PyErr_Format(PyExc_IndexError, "a string is not inside the buffer");
    Py_RETURN_NONE;
}

static PyObject *py_crc32c_of_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer rows;
    Numbers crcs;
    Py_ssize_t width;

    if (!PyArg_ParseTuple(args, "y*nO&", &rows, &width, take_u32s_to_fill, &crcs))
        return NULL;
    bool fits = width > 0 && rows.len % width == 0 && rows.len / width == crcs.count;
    if (fits) {
        PyThreadState *state = begin_loop(rows.len);
        for (Py_ssize_t number = 0; number < crcs.count; number++)
            u32s_of(&crcs)[number] = crc32c(0, (const uint8_t *)rows.buf + number * width, (size_t)width);
        end_loop(state);
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&crcs.view);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "rows of %zd bytes, and a checksum for each", width);
    Py_RETURN_NONE;
}

/* Move ``at`` to the end of the chain of records. False if memory runs out. */
static bool scan_records(const uint8_t *data, int64_t *at, int64_t end, int64_t max_record_bytes, Growing *starts)
{
    while (end - *at >= FIXED_BYTES) {
        uint8_t head[8];
        read_once(head, data + *at, sizeof head);
        int64_t size = load_u32(head);
        if (!can_be_head(head, max_record_bytes, end - *at))
            break;
        if (!push_long(starts, *at))
            return false;
        *at += size;
        if (size < end - *at) /* prefetch the record after the next, assuming equal sizes */
            __builtin_prefetch(data + *at + size);
    }
    return true;
}

static PyObject *py_scan(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t begin, end;
    long long max_record_bytes;
    Growing starts = {0};
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(args, "y*nnL", &buffer, &begin, &end, &max_record_bytes))
        return NULL;
    if (begin < 0 || begin > end || end > buffer.len) {
        PyErr_SetString(PyExc_IndexError, "the range is not inside the buffer");
    } else {
        int64_t at = begin;
        PyThreadState *state = begin_loop((end - begin) / 8); /* most bytes are skipped */
        bool enough = scan_records(buffer.buf, &at, end, max_record_bytes, &starts);
        end_loop(state);
        if (enough)
            result = Py_BuildValue("NL", as_bytes(&starts, sizeof(int64_t)), (long long)at);
        else
            PyErr_NoMemory();
    }
    free(starts.items);
    PyBuffer_Release(&buffer);
    return result;
}

/* The common fields of the records that fill a buffer. */
typedef struct {
    int64_t count;
    uint64_t producer_id, sequence;
    uint32_t meaning;
    int64_t latest_due;
} SentAlike;

/* False unless records fill the buffer and share one producer with consecutive sequences, and one type,
 * priority and level. */
static bool find_sent_alike(const uint8_t *data, int64_t end, int64_t max_record_bytes, SentAlike *found)
{
    RecordChain chain = {.data = data, .end = end, .max_record_bytes = max_record_bytes};

    while (next_in_chain(&chain)) {
        int64_t due = (int64_t)load_u64(chain.fixed + DELAY_TIME_AT);
        uint64_t producer_id = load_u64(chain.fixed + PRODUCER_ID_AT), sequence = load_u64(chain.fixed + SEQUENCE_AT);
        uint32_t meaning = load_u32(chain.fixed + TYPE_AT);
        if (found->count == 0) {
            *found = (SentAlike){0, producer_id, sequence, meaning, due};
        } else if (producer_id != found->producer_id || meaning != found->meaning ||
                   (producer_id != 0 && sequence != found->sequence + (uint64_t)found->count)) {
            return false;
        }
        if (due > found->latest_due)
            found->latest_due = due;
        found->count++;
    }
    return chain.at == end && found->count > 0;
}

static PyObject *py_sent_alike(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    long long max_record_bytes;
    SentAlike found = {0};

    if (!PyArg_ParseTuple(args, "y*L", &buffer, &max_record_bytes))
        return NULL;
    PyThreadState *state = begin_loop(buffer.len / 8); /* most bytes are skipped */
    bool alike = find_sent_alike(buffer.buf, buffer.len, max_record_bytes, &found);
    end_loop(state);
    PyBuffer_Release(&buffer);
    if (!alike)
        Py_RETURN_NONE;
    return Py_BuildValue("LKKIL", (long long)found.count, (unsigned long long)found.producer_id, (unsigned long long)found.sequence,
                         (unsigned int)found.meaning, (long long)found.latest_due);
}

static PyObject *py_examine(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Numbers starts;
    int stored, verify_crc;
    long long max_record_bytes;

    if (!PyArg_ParseTuple(args, "y*O&pLp", &buffer, take_longs, &starts, &stored, &max_record_bytes, &verify_crc))
        return NULL;
    Rules rules = {.stored = stored != 0, .verify_crc = verify_crc != 0, .max_record_bytes = max_record_bytes};
    PyThreadState *state = begin_loop(buffer.len);
    enum Verdict verdict = examine_records(&buffer, &starts, &rules);
    end_loop(state);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    return PyLong_FromLong(verdict);
}

static PyObject *py_count_intact(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Numbers starts, log_offsets;
    long long first;
    unsigned int topic_id, queue_id;
    Py_ssize_t intact = 0;

    if (!PyArg_ParseTuple(args, "y*O&O&LII", &buffer, take_longs, &starts, take_longs, &log_offsets, &first, &topic_id, &queue_id))
        return NULL;
    bool fits = log_offsets.count == starts.count;
    if (fits) {
        Places places = {.log_offsets = &log_offsets, .first = first, .topic_id = topic_id, .queue_id = queue_id};
        PyThreadState *state = begin_loop(buffer.len);
        intact = count_intact(&buffer, &starts, &places);
        end_loop(state);
    }
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    PyBuffer_Release(&log_offsets.view);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "a place for each record");
    return PyLong_FromSsize_t(intact);
}

static PyObject *py_are_of_topic(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer, topic;
    Numbers starts;
    Record record;
    bool all = true;

    if (!PyArg_ParseTuple(args, "y*O&y*", &buffer, take_longs, &starts, &topic))
        return NULL;
    Span wanted = {topic.buf, (const uint8_t *)topic.buf + topic.len};
    PyThreadState *state = begin_loop(starts.count * FIXED_BYTES);
    for (Py_ssize_t number = 0; all && number < starts.count; number++)
        all = find_record(&buffer, long_at(&starts, number), &record) && are_same(part_of(&record, TOPIC), wanted);
    end_loop(state);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    PyBuffer_Release(&topic);
    return PyBool_FromLong(all);
}

static PyObject *py_stamp(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Numbers starts;
    PyObject *given[STAMP_FIELDS];
    Column fields[STAMP_FIELDS];
    int taken = 0;
    bool done = false;

    if (!PyArg_ParseTuple(args, "w*O&OOOOOOOOO", &buffer, take_longs, &starts, &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                          &given[6], &given[7], &given[8]))
        return NULL;
    while (taken < STAMP_FIELDS && take_column(given[taken], starts.count, field_ranges[taken].least, field_ranges[taken].most, &fields[taken]))
        taken++;
    if (taken == STAMP_FIELDS) {
        PyThreadState *state = begin_loop(starts.count * PRODUCER_BYTES_AT);
        done = stamp_records(&buffer, &starts, fields);
        end_loop(state);
    }
    while (taken > 0)
        release_column(&fields[--taken]);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    return PyBool_FromLong(done);
}

static PyObject *py_queue_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer, entries;
    Numbers starts;
    PyObject *given[3];
    Column order, offsets, times;
    bool done = false;

    if (!PyArg_ParseTuple(args, "y*O&OOOw*", &buffer, take_longs, &starts, &given[0], &given[1], &given[2], &entries))
        return NULL;
    bool is_ordered = !Py_IsNone(given[0]);
    if (entries.len / ENTRY_BYTES == starts.count && (!is_ordered || take_column(given[0], starts.count, 0, starts.count, &order))) {
        if (take_column(given[1], starts.count, INT64_MIN, INT64_MAX, &offsets)) {
            if (take_column(given[2], starts.count, INT64_MIN, INT64_MAX, &times)) {
                PyThreadState *state = begin_loop(starts.count * FIXED_BYTES);
                done = make_entries(&buffer, &starts, is_ordered ? &order : NULL, &offsets, &times, entries.buf);
                end_loop(state);
                release_column(&times);
            }
            release_column(&offsets);
        }
        if (is_ordered)
            release_column(&order);
    }
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    PyBuffer_Release(&entries);
    return PyBool_FromLong(done);
}

PyObject *stretches_of(const Py_buffer *buffer, const Numbers *starts, const Column *queue_ids, const Column *queue_offsets, int64_t topic_id,
                              int64_t store_timestamp)
{
    Pairs found = {0};
    Growing runs = {0};
    PyObject *stretches = NULL, *result = NULL;

    if (!make_pairs(&found, starts->count)) {
        PyErr_NoMemory();
    } else if (!group_by_pair(&found, buffer, starts, queue_ids)) {
        result = Py_NewRef(Py_None);
    } else if ((stretches = PyList_New(0)) != NULL) {
        Py_ssize_t number = 0;
        while (number < found.count &&
               list_stretches(&found, &found.pairs[number], buffer, starts, queue_offsets, topic_id, store_timestamp, stretches, &runs))
            number++;
        if (number == found.count)
            result = Py_BuildValue("ON", stretches, as_bytes(&runs, sizeof(int64_t)));
        Py_DECREF(stretches);
    }
    free_pairs(&found);
    free(runs.items);
    return result;
}

static PyObject *py_stretches(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Numbers starts;
    PyObject *given[2], *result = NULL;
    Column queue_ids, queue_offsets;
    long long topic_id, store_timestamp;

    if (!PyArg_ParseTuple(args, "y*O&LOOL", &buffer, take_longs, &starts, &topic_id, &given[0], &given[1], &store_timestamp))
        return NULL;
    if (starts.count < UINT32_MAX && can_all_be_records(&buffer, &starts)) {
        if (!has_producer(&buffer, &starts)) {
            result = Py_BuildValue("([]y)", "");
        } else if (take_column(given[0], starts.count, 0, UINT32_MAX, &queue_ids)) {
            if (take_column(given[1], starts.count, 0, INT64_MAX - 1, &queue_offsets)) {
                result = stretches_of(&buffer, &starts, &queue_ids, &queue_offsets, topic_id, store_timestamp);
                release_column(&queue_offsets);
            } else {
                result = Py_NewRef(Py_None);
            }
            release_column(&queue_ids);
        } else {
            result = Py_NewRef(Py_None);
        }
    } else {
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    return result;
}

static PyObject *py_hash_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Numbers starts;
    KeyHashes found = {0};
    PyObject *result;

    if (!PyArg_ParseTuple(args, "y*O&", &buffer, take_longs, &starts))
        return NULL;
    PyThreadState *state = begin_loop(starts.count * FIXED_BYTES);
    bool done = hash_records(&buffer, &starts, &found);
    end_loop(state);
    if (done)
        result = Py_BuildValue("NN", as_bytes(&found.hashes, sizeof(uint32_t)), as_bytes(&found.owners, sizeof(int64_t)));
    else
        result = found.no_memory ? PyErr_NoMemory() : Py_NewRef(Py_None);
    free(found.hashes.items);
    free(found.owners.items);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts.view);
    return result;
}

static PyObject *py_link(PyObject *Py_UNUSED(module), PyObject *args)
{
    Numbers slots, hashes, previous;
    long long first;

    if (!PyArg_ParseTuple(args, "O&O&LO&", take_u32s_to_fill, &slots, take_u32s, &hashes, &first, take_u32s_to_fill, &previous))
        return NULL;
    bool fits = slots.count >= 1 && slots.count <= UINT32_MAX && previous.count == hashes.count && first >= 0 && hashes.count <= UINT32_MAX &&
                first <= (long long)UINT32_MAX - hashes.count;
    if (fits) {
        PyThreadState *state = begin_loop(hashes.count * 64); /* a cache line per slot */
        link_entries(u32s_of(&slots), (uint32_t)slots.count, u32s_of(&hashes), hashes.count, (uint32_t)first, u32s_of(&previous));
        end_loop(state);
    }
    PyBuffer_Release(&slots.view);
    PyBuffer_Release(&hashes.view);
    PyBuffer_Release(&previous.view);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "an index has slots, and numbers of 32 bits for its entries");
    Py_RETURN_NONE;
}

/* Described in _native.pyi. */
static PyMethodDef methods[] = {
    {"crc32c", py_crc32c, METH_VARARGS, NULL},
    {"crc32c_by_table", py_crc32c_by_table, METH_VARARGS, NULL},
    {"crc32c_of_strings", py_crc32c_of_strings, METH_VARARGS, NULL},
    {"crc32c_of_rows", py_crc32c_of_rows, METH_VARARGS, NULL},
    {"scan", py_scan, METH_VARARGS, NULL},
    {"sent_alike", py_sent_alike, METH_VARARGS, NULL},
    {"examine", py_examine, METH_VARARGS, NULL},
    {"count_intact", py_count_intact, METH_VARARGS, NULL},
    {"are_of_topic", py_are_of_topic, METH_VARARGS, NULL},
    {"stamp", py_stamp, METH_VARARGS, NULL},
    {"queue_entries", py_queue_entries, METH_VARARGS, NULL},
    {"stretches", py_stretches, METH_VARARGS, NULL},
    {"hash_keys", py_hash_keys, METH_VARARGS, NULL},
    {"link", py_link, METH_VARARGS, NULL},
    {"encode", (PyCFunction)(void (*)(void))py_encode, METH_FASTCALL, NULL},
    {"decode_messages", py_decode_messages, METH_VARARGS, NULL},
    {"split_frames", py_split_frames, METH_VARARGS, NULL},
    {"pack_sent_answers", py_pack_sent_answers, METH_VARARGS, NULL},
    {"stamp_sends", py_stamp_sends, METH_VARARGS, NULL},
    {"read_entries", py_read_entries, METH_VARARGS, NULL},
    {"extent", py_extent, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "litemq.format._native",
    .m_doc = "The loops of litemq.format, compiled.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void)
{
    prepare_crc32c();
    PyObject *self = PyModule_Create(&module);
    if (self != NULL && (PyModule_AddIntConstant(self, "NO_VERDICT", NO_VERDICT) != 0 || PyModule_AddIntConstant(self, "SOUND", SOUND) != 0 ||
                         PyModule_AddIntConstant(self, "ALIKE", ALIKE) != 0)) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

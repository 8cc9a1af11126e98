/* The hot path of a store, one call each way: from sent bytes to stamped records, and from queue entries to the
 * bytes of an answer. As in _native.c, nothing here explains: without certainty, Python decides. */
#include "_native.h"

/* More records, or records of more queues, are worth an array. */
enum { MAX_SENDS = 256, MAX_QUEUES = 32 };

/* Stamping of sends ----------------------------------------------------------------------------- */

typedef struct {
    int64_t queue_id, start, end; /* queue offsets */
} Queue;

typedef struct {
    Py_ssize_t count, queue_count;
    int64_t starts[MAX_SENDS], log_offsets[MAX_SENDS], queue_ids[MAX_SENDS], queue_offsets[MAX_SENDS];
    Queue queues[MAX_QUEUES];
} Sends;

static Numbers as_numbers(int64_t *items, Py_ssize_t count)
{
    return (Numbers){.view = {.buf = items}, .count = count};
}

static Column as_column(int64_t *items, Py_ssize_t count)
{
    return (Column){.is_one = false, .each = as_numbers(items, count)};
}

static Column all_alike(int64_t value)
{
    return (Column){.is_one = true, .one = value};
}

/* Find the records that fill the buffer. True if all are certainly valid and of the topic. */
static bool find_sends(const Py_buffer *buffer, Span topic, const Rules *rules, int64_t log_offset, Sends *sends)
{
    Record record;
    int64_t at = 0;

    for (Py_ssize_t number = 0; number < sends->count; number++, at += record.size) {
        if (!find_record(buffer, at, &record) || !record_is_sound(&record, rules) || !are_same(part_of(&record, TOPIC), topic))
            return false;
        sends->starts[number] = at;
        sends->log_offsets[number] = log_offset + at;
    }
    return at == buffer->len;
}

/* Return the next offset of a queue: 0 if ``end_offsets`` does not have it, -1 if it is not certain. */
static int64_t next_offset(PyObject *end_offsets, PyObject *topic_id, PyObject *queue_id)
{
    PyObject *key = PyTuple_Pack(2, topic_id, queue_id);
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(end_offsets, key); /* borrowed */
    int64_t offset = found == NULL ? 0 : PyLong_AsLongLong(found);

    Py_XDECREF(key);
    if (PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return -1;
    }
    return offset;
}

static Queue *find_queue(Sends *sends, int64_t queue_id)
{
    for (Py_ssize_t number = 0; number < sends->queue_count; number++)
        if (sends->queues[number].queue_id == queue_id)
            return &sends->queues[number];
    return NULL;
}

/* Give each record the next offset of its queue. False if a number is not in its range. */
static bool assign_offsets(Sends *sends, PyObject *queue_ids, PyObject *end_offsets, PyObject *topic_id, int64_t topic_queues)
{
    for (Py_ssize_t number = 0; number < sends->count; number++) {
        PyObject *item = PyList_GetItem(queue_ids, number); /* borrowed */
        int64_t queue_id = item != NULL && PyLong_Check(item) ? PyLong_AsLongLong(item) : -1;
        PyErr_Clear();
        if (queue_id < 0 || queue_id >= topic_queues)
            return false;
        Queue *queue = find_queue(sends, queue_id);
        if (queue == NULL) {
            if (sends->queue_count == MAX_QUEUES)
                return false;
            int64_t start = next_offset(end_offsets, topic_id, item);
            if (start < 0 || start > INT64_MAX - MAX_SENDS)
                return false;
            queue = &sends->queues[sends->queue_count++];
            *queue = (Queue){queue_id, start, start};
        }
        sends->queue_ids[number] = queue_id;
        sends->queue_offsets[number] = queue->end++;
    }
    return true;
}

/* The queues as tuples: queue id, first and next offset, entries. */
static PyObject *list_queues(const Py_buffer *buffer, const Sends *sends, int64_t store_timestamp)
{
    PyObject *queues = PyList_New(sends->queue_count);

    for (Py_ssize_t index = 0; queues != NULL && index < sends->queue_count; index++) {
        const Queue *queue = &sends->queues[index];
        PyObject *entries = PyBytes_FromStringAndSize(NULL, ENTRY_BYTES * (Py_ssize_t)(queue->end - queue->start));
        uint8_t *entry = entries == NULL ? NULL : (uint8_t *)PyBytes_AsString(entries);
        for (Py_ssize_t number = 0; entry != NULL && number < sends->count; number++)
            if (sends->queue_ids[number] == queue->queue_id) {
                make_entry(entry, (const uint8_t *)buffer->buf + sends->starts[number], sends->log_offsets[number], store_timestamp);
                entry += ENTRY_BYTES;
            }
        PyObject *row =
            entries == NULL ? NULL : Py_BuildValue("LLLN", (long long)queue->queue_id, (long long)queue->start, (long long)queue->end, entries);
        if (row == NULL || PyList_SetItem(queues, index, row) != 0)
            Py_CLEAR(queues);
    }
    return queues;
}

static PyObject *list_offsets(const Sends *sends)
{
    PyObject *offsets = PyList_New(sends->count);

    for (Py_ssize_t number = 0; offsets != NULL && number < sends->count; number++) {
        PyObject *offset = PyLong_FromLongLong(sends->queue_offsets[number]);
        if (offset == NULL || PyList_SetItem(offsets, number, offset) != 0)
            Py_CLEAR(offsets);
    }
    return offsets;
}

/* Stamp the records, and return their queue offsets, queues and producer runs. */
static PyObject *stamp_found(const Py_buffer *buffer, Sends *sends, int64_t topic_id, int64_t store_timestamp, int64_t epoch)
{
    Numbers starts = as_numbers(sends->starts, sends->count);
    Column queue_ids = as_column(sends->queue_ids, sends->count), queue_offsets = as_column(sends->queue_offsets, sends->count);
    PyObject *runs = stretches_of(buffer, &starts, &queue_ids, &queue_offsets, topic_id, store_timestamp);
    if (runs == NULL || Py_IsNone(runs))
        return runs;
    const Column fields[STAMP_FIELDS] = {
        [COMMITLOG_OFFSET] = as_column(sends->log_offsets, sends->count),
        [QUEUE_OFFSET] = queue_offsets,
        [TOPIC_ID] = all_alike(topic_id),
        [QUEUE_ID] = queue_ids,
        [STORE_TIMESTAMP] = all_alike(store_timestamp),
        [EPOCH] = all_alike(epoch),
        [KIND] = all_alike(0),
        [ORIGIN] = all_alike(-1),
        [CONSUME_COUNT] = all_alike(0),
    };
    PyObject *offsets = list_offsets(sends), *queues = list_queues(buffer, sends, store_timestamp);
    if (offsets == NULL || queues == NULL) {
        Py_XDECREF(offsets);
        Py_XDECREF(queues);
        Py_DECREF(runs);
        return NULL;
    }
    for (Py_ssize_t number = 0; number < sends->count; number++)
        stamp_record((uint8_t *)buffer->buf + sends->starts[number], fields, number);
    return Py_BuildValue("NNN", offsets, queues, runs);
}

PyObject *py_stamp_sends(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer, topic;
    PyObject *topic_number, *queue_ids, *end_offsets, *result = NULL;
    long long max_record_bytes, topic_queues, log_offset, store_timestamp, epoch;
    Sends sends;

    if (!PyArg_ParseTuple(args, "w*y*O!LO!O!LLLL", &buffer, &topic, &PyLong_Type, &topic_number, &topic_queues, &PyList_Type, &queue_ids, &PyDict_Type,
                          &end_offsets, &max_record_bytes, &log_offset, &store_timestamp, &epoch))
        return NULL;
    int64_t topic_id = PyLong_AsLongLong(topic_number);
    PyErr_Clear();
    sends.count = PyList_Size(queue_ids);
    sends.queue_count = 0;
    Rules rules = {.stored = false, .verify_crc = true, .max_record_bytes = max_record_bytes};
    Span name = {topic.buf, (const uint8_t *)topic.buf + topic.len};
    if (sends.count >= 1 && sends.count <= MAX_SENDS && topic_id >= 0 && topic_id <= UINT32_MAX && topic_queues <= UINT32_MAX && log_offset >= 0 &&
        log_offset <= INT64_MAX - buffer.len && store_timestamp >= 0 && (uint64_t)store_timestamp <= LATEST_TIME_MS && epoch >= 0 && epoch <= UINT32_MAX &&
        find_sends(&buffer, name, &rules, log_offset, &sends) && assign_offsets(&sends, queue_ids, end_offsets, topic_number, topic_queues))
        result = stamp_found(&buffer, &sends, topic_id, store_timestamp, epoch);
    else
        result = Py_NewRef(Py_None);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&topic);
    return result;
}

/* Reading by queue entries ---------------------------------------------------------------------- */

/* A part of the log, and the rules for what may be read of it. */
typedef struct {
    const Py_buffer *mapped;
    int64_t base;      /* log offset of its first byte */
    int64_t least;     /* nothing is read before this */
    int64_t confirmed; /* nothing is read from here on */
    int64_t max_bytes;
} Source;

typedef struct {
    int64_t offset, size;
} Entry;

static Entry load_entry(const uint8_t *at)
{
    uint8_t entry[ENTRY_BYTES];

    read_once(entry, at, sizeof entry);
    return (Entry){(int64_t)load_u64(entry), (int64_t)(int32_t)load_u32(entry + 8)};
}

static bool is_inside(const Source *source, Entry entry)
{
    return entry.offset >= source->least && entry.offset >= source->base && entry.offset - source->base <= source->mapped->len - entry.size;
}

/* Count the entries of the records to read, and their bytes. False if an entry is not certain. */
static bool measure_entries(const Source *source, const uint8_t *entries, Py_ssize_t most, Py_ssize_t *count, int64_t *bytes)
{
    *count = 0;
    *bytes = 0;
    for (; *count < most; ++*count) {
        Entry entry = load_entry(entries + ENTRY_BYTES * *count);
        if (entry.size < FIXED_BYTES || entry.offset < 0)
            return false;
        if (entry.offset > source->confirmed - entry.size || (*count > 0 && *bytes + entry.size > source->max_bytes))
            return true;
        if (!is_inside(source, entry))
            return false; /* older, or in another segment */
        *bytes += entry.size;
    }
    return true;
}

/* Copy the records, which take ``bytes``. False unless all of them are intact and belong to the queue. */
static bool copy_records(const Source *source, const uint8_t *entries, Py_ssize_t count, int64_t bytes, int64_t first, uint32_t topic_id,
                         uint32_t queue_id, uint8_t *to)
{
    Record record;

    for (Py_ssize_t number = 0; number < count; number++) {
        Entry entry = load_entry(entries + ENTRY_BYTES * number);
        if (entry.size < FIXED_BYTES || entry.size > bytes || !is_inside(source, entry)) /* changed by another thread */
            return false;
        memcpy(to, (const uint8_t *)source->mapped->buf + (entry.offset - source->base), (size_t)entry.size);
        record.bytes = to;
        memcpy(record.fixed, to, FIXED_BYTES);
        record.size = load_u32(record.fixed);
        if (record.size != entry.size || !is_stored_at(&record, entry.offset, first + number, topic_id, queue_id))
            return false;
        to += entry.size;
        bytes -= entry.size;
    }
    return true;
}

PyObject *py_read_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer mapped, entries;
    long long base, least, confirmed, max_bytes, first;
    Py_ssize_t begin, most, count;
    unsigned int topic_id, queue_id;
    int64_t bytes;
    PyObject *result = NULL;

    if (!PyArg_ParseTuple(args, "y*LLLy*nnLLII", &mapped, &base, &least, &confirmed, &entries, &begin, &most, &max_bytes, &first, &topic_id, &queue_id))
        return NULL;
    Source source = {&mapped, base, least, confirmed, max_bytes};
    Py_ssize_t total = entries.len / ENTRY_BYTES;
    if (begin < 0 || begin > total || most < 0 || most > total - begin) {
        PyErr_SetString(PyExc_IndexError, "the entries are not inside the buffer");
    } else {
        const uint8_t *from = (const uint8_t *)entries.buf + ENTRY_BYTES * begin;
        if (!measure_entries(&source, from, most, &count, &bytes)) {
            result = Py_NewRef(Py_None);
        } else if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes)) != NULL) {
            uint8_t *to = (uint8_t *)PyBytes_AsString(result);
            PyThreadState *state = begin_loop((Py_ssize_t)bytes);
            bool intact = copy_records(&source, from, count, bytes, first, topic_id, queue_id, to);
            end_loop(state);
            if (!intact) {
                Py_DECREF(result);
                result = Py_NewRef(Py_None);
            }
        }
    }
    PyBuffer_Release(&mapped);
    PyBuffer_Release(&entries);
    return result;
}

/* What stored records span ---------------------------------------------------------------------- */

typedef struct {
    int64_t count, first, last;        /* queue offsets */
    int64_t expires, stored;           /* the earliest, see extent.py */
} Extent;

/* False unless records fill the buffer. */
static bool find_extent(const uint8_t *data, int64_t end, int64_t max_record_bytes, Extent *extent)
{
    RecordChain chain = {.data = data, .end = end, .max_record_bytes = max_record_bytes};

    while (next_in_chain(&chain)) {
        int64_t expires = (int64_t)load_u64(chain.fixed + EXPIRE_AT_AT);
        int64_t *earliest = expires != 0 ? &extent->expires : &extent->stored;
        int64_t time = expires != 0 ? expires : (int64_t)load_u64(chain.fixed + STORE_TIMESTAMP_AT);
        extent->last = (int64_t)load_u64(chain.fixed + QUEUE_OFFSET_AT);
        if (extent->count++ == 0)
            extent->first = extent->last;
        if (time < *earliest)
            *earliest = time;
    }
    return chain.at == end && extent->count > 0;
}

PyObject *py_extent(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    long long max_record_bytes;
    Extent extent = {.expires = INT64_MAX, .stored = INT64_MAX};

    if (!PyArg_ParseTuple(args, "y*L", &buffer, &max_record_bytes))
        return NULL;
    PyThreadState *state = begin_loop(buffer.len / 8); /* most bytes are skipped */
    bool found = find_extent(buffer.buf, buffer.len, max_record_bytes, &extent);
    end_loop(state);
    PyBuffer_Release(&buffer);
    if (!found)
        Py_RETURN_NONE;
    return Py_BuildValue("LLLLL", (long long)extent.count, (long long)extent.first, (long long)extent.last, (long long)extent.expires,
                         (long long)extent.stored);
}

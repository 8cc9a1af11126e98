/* Conversion between records and Python values: encode one record to send, decode all records of a pull.
 *
 * Only plain values of the exact types, certainly within their limits, are handled here; everything else is left
 * to Python, which accepts or explains it. Values of exact types run no Python code, so reading one cannot change
 * another.
 */
#include "_native.h"

/* Values of a record to send -------------------------------------------------------------------- */

typedef struct {
    const char *at;
    Py_ssize_t length;
} Text;

/* In the order of the arguments; see RecordTemplate.encode. */
enum Argument {
    SHAPE_ARGUMENT,
    MAX_RECORD_BYTES_ARGUMENT,
    BODY_ARGUMENT,
    MESSAGE_ID_ARGUMENT,
    KEYS_ARGUMENT,
    BORN_TIMESTAMP_ARGUMENT,
    SEQUENCE_ARGUMENT,
    DELAY_TIME_ARGUMENT,
    EXPIRE_AT_ARGUMENT,
    TRANSACTION_ID_ARGUMENT,
    SHARDING_KEY_ARGUMENT,
    TYPE_ARGUMENT,
    CODEC_ARGUMENT,
    ENCRYPTED_ARGUMENT,
    ARGUMENTS
};

/* The common part of a template's records: a fixed part, followed by topic, host, tags and properties, with their
 * lengths in the fixed part. */
typedef struct {
    const uint8_t *fixed;
    Text topic, born_host, tags, properties;
} Shape;

typedef struct {
    Shape shape;
    Text body, message_id, transaction_id, sharding_key;
    Text keys[MAX_KEYS];
    Py_ssize_t key_count, keys_bytes;
    uint64_t born_timestamp, sequence, delay_time, expire_at;
    uint32_t type, flags;
} Outgoing;

/* Read a non-negative integer. No error is set on failure. */
static bool take_number(PyObject *object, uint64_t most, uint64_t *number)
{
    if (!PyLong_Check(object))
        return false;
    *number = PyLong_AsUnsignedLongLong(object);
    if (*number == UINT64_MAX && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return false;
    }
    return *number <= most;
}

static bool take_text(PyObject *object, Py_ssize_t most, Text *text)
{
    if (!PyUnicode_CheckExact(object))
        return false;
    text->at = PyUnicode_AsUTF8AndSize(object, &text->length);
    if (text->at == NULL)
        PyErr_Clear();
    return text->at != NULL && text->length <= most;
}

static bool take_body(PyObject *object, Text *body)
{
    if (PyBytes_CheckExact(object)) {
        body->at = PyBytes_AsString(object);
        body->length = PyBytes_Size(object);
    } else if (PyByteArray_CheckExact(object)) {
        body->at = PyByteArray_AsString(object);
        body->length = PyByteArray_Size(object);
    } else {
        return false;
    }
    return true;
}

static bool take_keys(PyObject *object, Outgoing *record)
{
    bool is_tuple = PyTuple_CheckExact(object);

    if (!is_tuple && !PyList_CheckExact(object))
        return false;
    record->key_count = is_tuple ? PyTuple_Size(object) : PyList_Size(object);
    record->keys_bytes = 0;
    if (record->key_count > MAX_KEYS)
        return false;
    for (Py_ssize_t number = 0; number < record->key_count; number++) {
        PyObject *key = is_tuple ? PyTuple_GetItem(object, number) : PyList_GetItem(object, number);
        if (!take_text(key, MAX_KEY_BYTES, &record->keys[number]))
            return false;
        record->keys_bytes += 2 + record->keys[number].length;
    }
    return true;
}

static bool take_attributes(PyObject *const *arguments, Outgoing *record)
{
    uint64_t type, codec;
    PyObject *encrypted = arguments[ENCRYPTED_ARGUMENT];

    if (!take_number(arguments[TYPE_ARGUMENT], 4, &type) || !take_number(arguments[CODEC_ARGUMENT], 2, &codec) || !PyBool_Check(encrypted))
        return false;
    record->type = (uint32_t)type;
    record->flags = (uint32_t)codec | (Py_IsTrue(encrypted) ? ENCRYPTED : 0);
    return true;
}

static bool take_shape(PyObject *object, Shape *shape)
{
    if (!PyBytes_CheckExact(object) || PyBytes_Size(object) < FIXED_BYTES)
        return false;
    const char *at = PyBytes_AsString(object), *end = at + PyBytes_Size(object);
    shape->fixed = (const uint8_t *)at;
    at += FIXED_BYTES;
    shape->topic = (Text){at, load_u16(shape->fixed + SHORT_LENGTHS_AT + 2 * TOPIC)};
    at += shape->topic.length;
    shape->born_host = (Text){at, load_u16(shape->fixed + SHORT_LENGTHS_AT + 2 * BORN_HOST)};
    at += shape->born_host.length;
    shape->tags = (Text){at, load_u32(shape->fixed + LONG_LENGTHS_AT)};
    shape->properties = (Text){at + shape->tags.length, load_u32(shape->fixed + LONG_LENGTHS_AT + 4 * (PROPERTIES - TAGS))};
    return shape->topic.length + shape->born_host.length + shape->tags.length + shape->properties.length == end - (const char *)shape->fixed - FIXED_BYTES;
}

static bool take_outgoing(PyObject *const *arguments, Outgoing *record)
{
    return take_shape(arguments[SHAPE_ARGUMENT], &record->shape) && take_body(arguments[BODY_ARGUMENT], &record->body) &&
           take_text(arguments[MESSAGE_ID_ARGUMENT], MAX_MESSAGE_ID_BYTES, &record->message_id) && take_keys(arguments[KEYS_ARGUMENT], record) &&
           take_number(arguments[BORN_TIMESTAMP_ARGUMENT], LATEST_TIME_MS, &record->born_timestamp) &&
           take_number(arguments[SEQUENCE_ARGUMENT], UINT64_MAX, &record->sequence) &&
           take_number(arguments[DELAY_TIME_ARGUMENT], LATEST_TIME_MS, &record->delay_time) &&
           take_number(arguments[EXPIRE_AT_ARGUMENT], LATEST_TIME_MS, &record->expire_at) &&
           take_text(arguments[TRANSACTION_ID_ARGUMENT], UINT16_MAX, &record->transaction_id) &&
           take_text(arguments[SHARDING_KEY_ARGUMENT], UINT16_MAX, &record->sharding_key) && take_attributes(arguments, record);
}

/* Encoding -------------------------------------------------------------------------------------- */

static int64_t bytes_without_padding(const Outgoing *record)
{
    const Shape *shape = &record->shape;
    return (int64_t)FIXED_BYTES + record->message_id.length + shape->topic.length + record->transaction_id.length + record->sharding_key.length +
           shape->born_host.length + shape->tags.length + record->keys_bytes + shape->properties.length + record->body.length;
}

static inline uint8_t *put(uint8_t *at, Text text)
{
    memcpy(at, text.at, (size_t)text.length);
    return at + text.length;
}

static inline void store_u16(uint8_t *at, Py_ssize_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_fixed(uint8_t *to, const Outgoing *record, int64_t size)
{
    memcpy(to, record->shape.fixed, FIXED_BYTES);
    store_u32(to, (uint32_t)size);
    store_u64(to + BORN_TIMESTAMP_AT, record->born_timestamp);
    store_u64(to + DELAY_TIME_AT, record->delay_time);
    store_u64(to + EXPIRE_AT_AT, record->expire_at);
    store_u64(to + SEQUENCE_AT, record->sequence);
    store_u32(to + FLAGS_AT, record->flags);
    to[TYPE_AT] = (uint8_t)record->type;
    store_u16(to + SHORT_LENGTHS_AT + 2 * MESSAGE_ID, record->message_id.length);
    store_u16(to + SHORT_LENGTHS_AT + 2 * TRANSACTION_ID, record->transaction_id.length);
    store_u16(to + SHORT_LENGTHS_AT + 2 * SHARDING_KEY, record->sharding_key.length);
    store_u32(to + LONG_LENGTHS_AT + 4 * (KEYS - TAGS), (uint32_t)record->keys_bytes);
    store_u32(to + LONG_LENGTHS_AT + 4 * (BODY - TAGS), (uint32_t)record->body.length);
}

static void put_record(uint8_t *to, const Outgoing *record, int64_t size)
{
    const Shape *shape = &record->shape;

    put_fixed(to, record, size);
    uint8_t *at = put(to + FIXED_BYTES, record->message_id);
    at = put(at, shape->topic);
    at = put(at, record->transaction_id);
    at = put(at, record->sharding_key);
    at = put(at, shape->born_host);
    at = put(at, shape->tags);
    for (Py_ssize_t number = 0; number < record->key_count; number++) {
        store_u16(at, record->keys[number].length);
        at = put(at + 2, record->keys[number]);
    }
    at = put(at, shape->properties);
    at = put(at, record->body);
    memset(at, 0, (size_t)(to + size - at));
}

PyObject *py_encode(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Outgoing record;
    uint64_t most;

    if (count != ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "%d values make a record, not %zd", (int)ARGUMENTS, count);
    if (!take_number(arguments[MAX_RECORD_BYTES_ARGUMENT], UINT32_MAX, &most) || !take_outgoing(arguments, &record))
        Py_RETURN_NONE;
    int64_t size = (bytes_without_padding(&record) + 7) & ~7;
    if (size > (int64_t)most)
        Py_RETURN_NONE;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (result == NULL)
        return NULL;
    uint8_t *bytes = (uint8_t *)PyBytes_AsString(result);
    put_record(bytes, &record, size);
    PyThreadState *state = begin_loop((Py_ssize_t)size);
    store_u32(bytes + PRODUCER_CRC_AT, crc32c(0, bytes + PRODUCER_BYTES_AT, (size_t)size - PRODUCER_BYTES_AT));
    end_loop(state);
    return result;
}

/* Fields of pulled records ---------------------------------------------------------------------- */

/* In the order of MessageFields; see messages.py. */
enum Field {
    MESSAGE_ID_FIELD,
    TOPIC_FIELD,
    BODY_FIELD,
    TAGS_FIELD,
    KEYS_FIELD,
    PROPERTIES_FIELD,
    SHARDING_KEY_FIELD,
    BORN_TIMESTAMP_FIELD,
    STORE_TIMESTAMP_FIELD,
    QUEUE_ID_FIELD,
    QUEUE_OFFSET_FIELD,
    COMMITLOG_OFFSET_FIELD,
    KIND_FIELD,
    CONSUME_COUNT_FIELD,
    CODEC_FIELD,
    ENCRYPTED_FIELD,
    PRIORITY_FIELD,
    RELIABILITY_FIELD,
    PRODUCER_ID_FIELD,
    SEQUENCE_FIELD,
    DELAY_TIME_FIELD,
    EXPIRE_AT_FIELD,
    TRANSACTION_ID_FIELD,
    BORN_HOST_FIELD,
    TYPE_FIELD,
    FIELDS
};

/* The members of a Python enum, by value. */
enum Enumeration { KINDS, CODECS, LEVELS, TYPES, ENUMERATIONS };

/* Objects of the previous record, which the next one often shares. */
typedef struct {
    uint64_t raw;
    PyObject *value;
} KnownNumber;

typedef struct {
    Span raw;
    PyObject *value;
} KnownSpan;

typedef struct {
    PyTypeObject *message_type;
    PyObject *members[ENUMERATIONS], *no_properties;
    KnownNumber born_timestamp, store_timestamp, queue_id, producer_id, delay_time, expire_at;
    KnownSpan topic, born_host, tags;
} Making;

static void forget(Making *making)
{
    Py_XDECREF(making->born_timestamp.value);
    Py_XDECREF(making->store_timestamp.value);
    Py_XDECREF(making->queue_id.value);
    Py_XDECREF(making->producer_id.value);
    Py_XDECREF(making->delay_time.value);
    Py_XDECREF(making->expire_at.value);
    Py_XDECREF(making->topic.value);
    Py_XDECREF(making->born_host.value);
    Py_XDECREF(making->tags.value);
}

static PyObject *number_of(uint64_t raw, KnownNumber *known)
{
    if (known->value == NULL || known->raw != raw) {
        Py_XDECREF(known->value);
        known->raw = raw;
        known->value = PyLong_FromUnsignedLongLong(raw);
    }
    return Py_XNewRef(known->value);
}

static PyObject *text_of(Span span)
{
    return PyUnicode_DecodeUTF8((const char *)span.begin, (Py_ssize_t)length_of(span), NULL);
}

/* Decode the strings of a list. NULL without an error if another thread has damaged the list meanwhile. */
static PyObject *strings_of(Span list)
{
    Span strings[MAX_TAGS > MAX_KEYS ? MAX_TAGS : MAX_KEYS];
    Py_ssize_t count = 0;

    for (; list.begin < list.end; count++)
        if (count == (Py_ssize_t)(sizeof strings / sizeof *strings) || !next_string(&list, &strings[count]))
            return NULL;
    PyObject *result = PyTuple_New(count);
    for (Py_ssize_t number = 0; result != NULL && number < count; number++) {
        PyObject *text = text_of(strings[number]);
        if (text == NULL)
            Py_CLEAR(result);
        else
            PyTuple_SetItem(result, number, text);
    }
    return result;
}

static PyObject *remembered(Span span, KnownSpan *known, PyObject *(*make)(Span))
{
    if (known->value == NULL || !are_same(span, known->raw)) {
        Py_XDECREF(known->value);
        known->raw = span;
        known->value = make(span);
    }
    return Py_XNewRef(known->value);
}

static bool add_property(PyObject *properties, Span name, Span value)
{
    PyObject *key = text_of(name), *text = text_of(value);
    bool added = key != NULL && text != NULL && PyDict_SetItem(properties, key, text) == 0;
    Py_XDECREF(key);
    Py_XDECREF(text);
    return added;
}

static PyObject *properties_of(Span list, PyObject *none)
{
    Span name, value;

    if (length_of(list) == 0)
        return Py_NewRef(none);
    PyObject *properties = PyDict_New();
    while (properties != NULL && list.begin < list.end)
        if (!next_string(&list, &name) || !next_string(&list, &value) || !add_property(properties, name, value))
            Py_CLEAR(properties);
    return properties;
}

static PyObject *member_of(const Making *making, enum Enumeration which, uint32_t number)
{
    return Py_XNewRef(PyTuple_GetItem(making->members[which], (Py_ssize_t)number));
}

/* Fill the values until one fails; return their number. */
static int make_values(Making *making, const Record *record, PyObject **values)
{
    const uint8_t *fixed = record->fixed;
    Span body = part_of(record, BODY);
    uint32_t flags = load_u32(fixed + FLAGS_AT);
    int made = 0;

#define MAKE(field, value)                     \
    do {                                       \
        if ((values[field] = (value)) == NULL) \
            return made;                       \
        made = field + 1;                      \
    } while (0)

    MAKE(MESSAGE_ID_FIELD, text_of(part_of(record, MESSAGE_ID)));
    MAKE(TOPIC_FIELD, remembered(part_of(record, TOPIC), &making->topic, text_of));
    MAKE(BODY_FIELD, PyBytes_FromStringAndSize((const char *)body.begin, (Py_ssize_t)length_of(body)));
    MAKE(TAGS_FIELD, remembered(part_of(record, TAGS), &making->tags, strings_of));
    MAKE(KEYS_FIELD, strings_of(part_of(record, KEYS)));
    MAKE(PROPERTIES_FIELD, properties_of(part_of(record, PROPERTIES), making->no_properties));
    MAKE(SHARDING_KEY_FIELD, text_of(part_of(record, SHARDING_KEY)));
    MAKE(BORN_TIMESTAMP_FIELD, number_of(load_u64(fixed + BORN_TIMESTAMP_AT), &making->born_timestamp));
    MAKE(STORE_TIMESTAMP_FIELD, number_of(load_u64(fixed + STORE_TIMESTAMP_AT), &making->store_timestamp));
    MAKE(QUEUE_ID_FIELD, number_of(load_u32(fixed + QUEUE_ID_AT), &making->queue_id));
    MAKE(QUEUE_OFFSET_FIELD, PyLong_FromUnsignedLongLong(load_u64(fixed + QUEUE_OFFSET_AT)));
    MAKE(COMMITLOG_OFFSET_FIELD, PyLong_FromUnsignedLongLong(load_u64(fixed + COMMITLOG_OFFSET_AT)));
    MAKE(KIND_FIELD, member_of(making, KINDS, fixed[KIND_AT]));
    MAKE(CONSUME_COUNT_FIELD, PyLong_FromLong((long)load_u16(fixed + CONSUME_COUNT_AT)));
    MAKE(CODEC_FIELD, member_of(making, CODECS, flags & CODEC_MASK));
    MAKE(ENCRYPTED_FIELD, PyBool_FromLong(flags & ENCRYPTED));
    MAKE(PRIORITY_FIELD, PyLong_FromLong(fixed[PRIORITY_AT]));
    MAKE(RELIABILITY_FIELD, member_of(making, LEVELS, fixed[RELIABILITY_AT]));
    MAKE(PRODUCER_ID_FIELD, number_of(load_u64(fixed + PRODUCER_ID_AT), &making->producer_id));
    MAKE(SEQUENCE_FIELD, PyLong_FromUnsignedLongLong(load_u64(fixed + SEQUENCE_AT)));
    MAKE(DELAY_TIME_FIELD, number_of(load_u64(fixed + DELAY_TIME_AT), &making->delay_time));
    MAKE(EXPIRE_AT_FIELD, number_of(load_u64(fixed + EXPIRE_AT_AT), &making->expire_at));
    MAKE(TRANSACTION_ID_FIELD, text_of(part_of(record, TRANSACTION_ID)));
    MAKE(BORN_HOST_FIELD, remembered(part_of(record, BORN_HOST), &making->born_host, text_of));
    MAKE(TYPE_FIELD, member_of(making, TYPES, fixed[TYPE_AT]));
#undef MAKE
    return made;
}

static PyObject *make_message(Making *making, const Record *record)
{
    PyObject *values[FIELDS];
    int made = make_values(making, record, values);

    if (made == FIELDS)
        return named_tuple(making->message_type, values, FIELDS);
    while (made > 0)
        Py_DECREF(values[--made]);
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear(); /* it was valid: another thread writes into the buffer */
    return NULL;
}

/* Move ``at`` to the end of the last record that is certainly valid. False if an error is set. */
static bool make_messages(Making *making, const Py_buffer *buffer, int64_t *at, const Rules *rules, PyObject *messages)
{
    Record record;

    while (find_record(buffer, *at, &record) && record_is_sound(&record, rules)) {
        PyObject *message = make_message(making, &record);
        if (message == NULL)
            return PyErr_Occurred() == NULL;
        int failed = PyList_Append(messages, message);
        Py_DECREF(message);
        if (failed)
            return false;
        *at += record.size;
    }
    return true;
}

PyObject *py_decode_messages(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t begin;
    Making making = {0};
    Rules rules = {.stored = true, .verify_crc = true};
    long long max_record_bytes;
    PyObject *messages;

    if (!PyArg_ParseTuple(args, "y*nLO!(O!O!O!O!)OO!", &buffer, &begin, &max_record_bytes, &PyType_Type, &making.message_type, &PyTuple_Type,
                          &making.members[KINDS], &PyTuple_Type, &making.members[CODECS], &PyTuple_Type, &making.members[LEVELS], &PyTuple_Type,
                          &making.members[TYPES], &making.no_properties, &PyList_Type, &messages))
        return NULL;
    int64_t at = begin;
    rules.max_record_bytes = max_record_bytes;
    bool made = is_named_tuple(making.message_type) && make_messages(&making, &buffer, &at, &rules, messages);
    forget(&making);
    PyBuffer_Release(&buffer);
    return made ? PyLong_FromLongLong(at) : NULL;
}

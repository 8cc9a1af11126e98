/* Records and the values of Python: the bytes of one that is sent, and the fields of all that were pulled.
 *
 * Here, too, a quick yes is all that is given: whatever is not a plain value of the type that is meant, or not surely within its limits,
 * goes the way through Python, which takes it or explains. Values of exact types run no code of their own: while one is read, none of
 * the others changes.
 */
#include "_native.h"

/* The values of a record that is sent ------------------------------------------------------------------------------------------- */

typedef struct {
    const char *at;
    Py_ssize_t length;
} Text;

/* In the order in which Python passes them; see RecordTemplate.encode. */
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

/* What the records of a template share: a fixed part whose lengths say how long the topic, the host, the tags and the properties behind
 * it are. */
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

/* An integer from 0 on; no error is set where it is none. */
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
    record->flags = (uint32_t)codec | (Py_IsTrue(encrypted) ? 8 : 0);
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

/* Its bytes --------------------------------------------------------------------------------------------------------------------- */

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

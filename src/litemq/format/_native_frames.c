/* Frames: split received bytes into frames, and pack answers to SEND.
 *
 * The layout is that of net/frame.py and net/sent_answers.py. An invalid frame gets no verdict: Python explains.
 */
#include "_native.h"

enum { PREFIX_BYTES = 16, LENGTH_BYTES = 4, BEHIND_LENGTH = PREFIX_BYTES - LENGTH_BYTES };

/* Received frames ------------------------------------------------------------------------------- */

/* In the order of Frame. */
enum FrameField { CORRELATION_FIELD, OPCODE_FIELD, FLAGS_FIELD, HEADER_FIELD, ATTACHMENT_FIELD, FRAME_FIELDS };

typedef struct {
    const uint8_t *bytes;
    int64_t length, header_length; /* of the frame after the prefix, and of the header */
} FoundFrame;

/* The header of the previous frame, which often equals the next one. */
typedef struct {
    Span raw;
    PyObject *value;
} KnownHeader;

static PyObject *header_of(Span raw, KnownHeader *known)
{
    if (known->value == NULL || !are_same(raw, known->raw)) {
        Py_XDECREF(known->value);
        known->raw = raw;
        known->value = PyBytes_FromStringAndSize((const char *)raw.begin, (Py_ssize_t)length_of(raw));
    }
    return Py_XNewRef(known->value);
}

static PyObject *make_frame(PyTypeObject *type, const FoundFrame *frame, KnownHeader *known)
{
    const uint8_t *header = frame->bytes + PREFIX_BYTES, *attachment = header + frame->header_length;
    PyObject *values[FRAME_FIELDS] = {
        [CORRELATION_FIELD] = PyLong_FromUnsignedLong(load_u32(frame->bytes + 4)),
        [OPCODE_FIELD] = PyLong_FromUnsignedLong(load_u16(frame->bytes + 8)),
        [FLAGS_FIELD] = PyLong_FromUnsignedLong(load_u16(frame->bytes + 10)),
        [HEADER_FIELD] = header_of((Span){header, attachment}, known),
        [ATTACHMENT_FIELD] = PyBytes_FromStringAndSize((const char *)attachment, (Py_ssize_t)(frame->length - frame->header_length)),
    };

    for (int field = 0; field < FRAME_FIELDS; field++)
        if (values[field] == NULL) {
            for (field = 0; field < FRAME_FIELDS; field++)
                Py_XDECREF(values[field]);
            return NULL;
        }
    return named_tuple(type, values, FRAME_FIELDS);
}

typedef struct {
    const uint8_t *at, *end;
    int64_t max_frame_bytes, wanted; /* wanted: bytes needed for the next frame */
    bool broken;                     /* the next bytes are not a frame */
} Stream;

/* The next frame, if it is complete. */
static bool next_frame(Stream *stream, FoundFrame *frame)
{
    stream->wanted = PREFIX_BYTES;
    if (stream->end - stream->at < PREFIX_BYTES)
        return false;
    int64_t length = load_u32(stream->at), header_length = load_u32(stream->at + 12);
    stream->broken = length > stream->max_frame_bytes || length < BEHIND_LENGTH + header_length;
    if (stream->broken)
        return false;
    if (length > stream->end - stream->at - LENGTH_BYTES) {
        stream->wanted = LENGTH_BYTES + length;
        return false;
    }
    *frame = (FoundFrame){stream->at, length - BEHIND_LENGTH, header_length};
    stream->at += LENGTH_BYTES + length;
    return true;
}

static bool cut_frames(Stream *stream, Py_ssize_t most, PyTypeObject *type, PyObject *frames)
{
    FoundFrame found;
    KnownHeader known = {0};
    bool enough_memory = true;

    while (enough_memory && most-- > 0 && next_frame(stream, &found)) {
        PyObject *frame = make_frame(type, &found, &known);
        enough_memory = frame != NULL && PyList_Append(frames, frame) == 0;
        Py_XDECREF(frame);
    }
    Py_XDECREF(known.value);
    return enough_memory;
}

PyObject *py_split_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *frames, *result = NULL;
    PyTypeObject *type;
    Py_ssize_t begin, most;
    long long max_frame_bytes;

    if (!PyArg_ParseTuple(args, "SnnLO!", &data, &begin, &most, &max_frame_bytes, &PyType_Type, &type) || !is_named_tuple(type))
        return NULL;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(data);
    Py_ssize_t length = PyBytes_Size(data);
    if (begin < 0 || begin > length)
        return PyErr_Format(PyExc_IndexError, "byte %zd of %zd", begin, length);
    Stream stream = {.at = bytes + begin, .end = bytes + length, .max_frame_bytes = max_frame_bytes, .wanted = PREFIX_BYTES};
    if ((frames = PyList_New(0)) == NULL)
        return NULL;
    if (cut_frames(&stream, most, type, frames))
        result = stream.broken ? Py_NewRef(Py_None) : Py_BuildValue("OnL", frames, (Py_ssize_t)(stream.at - bytes), (long long)stream.wanted);
    Py_DECREF(frames);
    return result;
}

/* Answers to SEND ------------------------------------------------------------------------------- */

enum { SENT_HEADER_BYTES = 18, SENT_ANSWER_BYTES = PREFIX_BYTES + SENT_HEADER_BYTES, ANSWER_FLAG = 1, OFFSET_TAG = 0x09, TIMESTAMP_TAG = 0x11 };

static void store_u64_low_first(uint8_t *at, uint64_t value)
{
    for (int place = 0; place < 8; place++)
        at[place] = (uint8_t)(value >> 8 * place);
}

/* Read a Python integer within a range. False, without an error, if it is not one. */
static bool take_integer(PyObject *object, int64_t least, int64_t most, int64_t *number)
{
    if (object == NULL || !PyLong_Check(object))
        return false;
    *number = PyLong_AsLongLong(object);
    if (*number == -1 && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return false;
    }
    return *number >= least && *number <= most;
}

static bool put_answers(uint8_t *to, PyObject *correlations, PyObject *offsets, uint32_t opcode, int64_t timestamp)
{
    Py_ssize_t count = PyList_Size(correlations);
    int64_t correlation, offset;

    for (Py_ssize_t number = 0; number < count; number++, to += SENT_ANSWER_BYTES) {
        if (!take_integer(PyList_GetItem(correlations, number), 0, UINT32_MAX, &correlation) ||
            !take_integer(PyList_GetItem(offsets, number), INT64_MIN, INT64_MAX, &offset))
            return false;
        store_u32(to, SENT_ANSWER_BYTES - LENGTH_BYTES);
        store_u32(to + 4, (uint32_t)correlation);
        store_u32(to + 8, opcode << 16 | ANSWER_FLAG);
        store_u32(to + 12, SENT_HEADER_BYTES);
        to[PREFIX_BYTES] = OFFSET_TAG;
        store_u64_low_first(to + PREFIX_BYTES + 1, (uint64_t)offset);
        to[PREFIX_BYTES + 9] = TIMESTAMP_TAG;
        store_u64_low_first(to + PREFIX_BYTES + 10, (uint64_t)timestamp);
    }
    return true;
}

PyObject *py_pack_sent_answers(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *correlations, *offsets, *given_timestamp;
    unsigned short opcode;
    int64_t timestamp;

    if (!PyArg_ParseTuple(args, "O!O!HO", &PyList_Type, &correlations, &PyList_Type, &offsets, &opcode, &given_timestamp))
        return NULL;
    if (PyList_Size(offsets) != PyList_Size(correlations) || !take_integer(given_timestamp, INT64_MIN, INT64_MAX, &timestamp))
        Py_RETURN_NONE;
    PyObject *result = PyBytes_FromStringAndSize(NULL, PyList_Size(correlations) * SENT_ANSWER_BYTES);
    if (result == NULL || put_answers((uint8_t *)PyBytes_AsString(result), correlations, offsets, opcode, timestamp))
        return result;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

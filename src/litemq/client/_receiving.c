/* Received messages: one for each record of a pull, with only the body copied.
 *
 * The other fields stay encoded until someone asks for one of them. Every record is validated completely when the
 * message is made. Records that are not certainly valid are left to Python, which explains what is wrong.
 *
 * Uses the limited API of Python 3.11: one build works with every later version.
 */
#include "../format/_native.h"

#include <structmember.h>

/* See received.py. */
typedef struct {
    PyObject_HEAD
    PyObject *source, *head, *raw_body, *decoded, *body, *undecodable;
    long long queue_offset;
    int attempt;
    unsigned char codec;
    char settled;
} ReceivedMessage;

static PyTypeObject *received_type;

static ReceivedMessage *allocate(PyTypeObject *type)
{
    return (ReceivedMessage *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

static PyObject *new_message(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named))
{
    return (PyObject *)allocate(type);
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    ReceivedMessage *self = (ReceivedMessage *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->source);
    Py_VISIT(self->raw_body);
    Py_VISIT(self->decoded);
    Py_VISIT(self->body);
    Py_VISIT(self->undecodable);
    return 0;
}

static int clear(PyObject *object)
{
    ReceivedMessage *self = (ReceivedMessage *)object;
    Py_CLEAR(self->source);
    Py_CLEAR(self->head);
    Py_CLEAR(self->raw_body);
    Py_CLEAR(self->decoded);
    Py_CLEAR(self->body);
    Py_CLEAR(self->undecodable);
    return 0;
}

static void dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* The record that the message was made from. */
static PyObject *py_record(PyObject *object, PyObject *Py_UNUSED(nothing))
{
    ReceivedMessage *self = (ReceivedMessage *)object;

    if (self->head == NULL || self->raw_body == NULL || !PyBytes_CheckExact(self->raw_body))
        return PyErr_Format(PyExc_ValueError, "this message was not made from a record");
    Py_ssize_t head = PyBytes_Size(self->head), body = PyBytes_Size(self->raw_body), size = (head + body + 7) & ~7;
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (result == NULL)
        return NULL;
    char *to = PyBytes_AsString(result);
    memcpy(to, PyBytes_AsString(self->head), (size_t)head);
    memcpy(to + head, PyBytes_AsString(self->raw_body), (size_t)body);
    memset(to + head + body, 0, (size_t)(size - head - body));
    return result;
}

static PyMethodDef message_methods[] = {
    {"_record", py_record, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_source", T_OBJECT_EX, offsetof(ReceivedMessage, source), 0, NULL},
    {"_raw_body", T_OBJECT_EX, offsetof(ReceivedMessage, raw_body), 0, NULL},
    {"_decoded", T_OBJECT, offsetof(ReceivedMessage, decoded), 0, NULL},
    {"_body", T_OBJECT, offsetof(ReceivedMessage, body), 0, NULL},
    {"_undecodable", T_OBJECT, offsetof(ReceivedMessage, undecodable), 0, NULL},
    {"_queue_offset", T_LONGLONG, offsetof(ReceivedMessage, queue_offset), 0, NULL},
    {"_attempt", T_INT, offsetof(ReceivedMessage, attempt), 0, NULL},
    {"_codec", T_UBYTE, offsetof(ReceivedMessage, codec), 0, NULL},
    {"_settled", T_BOOL, offsetof(ReceivedMessage, settled), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_message},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, message_methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "litemq.client._receiving.ReceivedMessage",
    .basicsize = sizeof(ReceivedMessage),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static PyObject *make_message(PyTypeObject *type, PyObject *source, const Record *record)
{
    Span body = part_of(record, BODY);
    int64_t head = record->begins[BODY];
    ReceivedMessage *self = allocate(type);

    if (self == NULL)
        return NULL;
    self->source = Py_NewRef(source);
    self->head = PyBytes_FromStringAndSize((const char *)record->bytes, (Py_ssize_t)head);
    self->raw_body = PyBytes_FromStringAndSize((const char *)body.begin, (Py_ssize_t)length_of(body));
    if (self->head == NULL || self->raw_body == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    self->queue_offset = (long long)load_u64(record->fixed + QUEUE_OFFSET_AT);
    self->attempt = (int)load_u16(record->fixed + CONSUME_COUNT_AT) + 1;
    self->codec = (unsigned char)(load_u32(record->fixed + FLAGS_AT) & CODEC_MASK);
    return (PyObject *)self;
}

/* Move ``at`` to the end of the last record that is certainly valid. False if an error is set. */
static bool make_messages(PyTypeObject *type, PyObject *source, const Py_buffer *buffer, int64_t *at, const Rules *rules, PyObject *messages)
{
    Record record;

    while (find_record(buffer, *at, &record) && record_is_sound(&record, rules)) {
        PyObject *message = make_message(type, source, &record);
        if (message == NULL)
            return false;
        int failed = PyList_Append(messages, message);
        Py_DECREF(message);
        if (failed)
            return false;
        *at += record.size;
    }
    return true;
}

static PyObject *py_decode_received(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t begin;
    long long max_record_bytes;
    PyTypeObject *type;
    PyObject *source, *messages;

    if (!PyArg_ParseTuple(args, "y*nLO!OO!", &buffer, &begin, &max_record_bytes, &PyType_Type, &type, &source, &PyList_Type, &messages))
        return NULL;
    Rules rules = {.stored = true, .verify_crc = true, .max_record_bytes = max_record_bytes};
    int64_t at = begin;
    bool made = false;
    if (!PyType_IsSubtype(type, received_type))
        PyErr_SetString(PyExc_TypeError, "pass a type of received messages");
    else
        made = make_messages(type, source, &buffer, &at, &rules, messages);
    PyBuffer_Release(&buffer);
    return made ? PyLong_FromLongLong(at) : NULL;
}

/* Runs of messages ------------------------------------------------------------------------------ */

static PyObject *py_runs(PyObject *Py_UNUSED(module), PyObject *messages)
{
    if (!PyList_Check(messages))
        return PyErr_Format(PyExc_TypeError, "pass a list of received messages");
    PyObject *result = PyList_New(0);
    const ReceivedMessage *first = NULL, *last = NULL;
    Py_ssize_t begin = 0, count = PyList_Size(messages);
    for (Py_ssize_t number = 0; result != NULL && number <= count; number++) {
        const ReceivedMessage *message = number < count ? (const ReceivedMessage *)PyList_GetItem(messages, number) : NULL;
        if (message != NULL && (!PyObject_TypeCheck((PyObject *)message, received_type) || message->source == NULL)) {
            PyErr_SetString(PyExc_TypeError, "pass a list of received messages");
            Py_CLEAR(result);
            break;
        }
        bool continues = message != NULL && last != NULL && message->source == last->source && message->settled == last->settled &&
                         message->queue_offset == last->queue_offset + 1;
        if (last != NULL && !continues) {
            PyObject *run = Py_BuildValue("(OnnLO)", first->source, begin, number, first->queue_offset, first->settled ? Py_True : Py_False);
            if (run == NULL || PyList_Append(result, run) != 0)
                Py_CLEAR(result);
            Py_XDECREF(run);
        }
        if (!continues) {
            first = message;
            begin = number;
        }
        last = message;
    }
    return result;
}

static PyObject *py_mark_settled(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *messages;
    Py_ssize_t begin, end;

    if (!PyArg_ParseTuple(args, "O!nn", &PyList_Type, &messages, &begin, &end))
        return NULL;
    for (Py_ssize_t number = begin; number < end; number++) {
        PyObject *message = PyList_GetItem(messages, number);
        if (message == NULL)
            return NULL;
        if (!PyObject_TypeCheck(message, received_type))
            return PyErr_Format(PyExc_TypeError, "pass a list of received messages");
        ((ReceivedMessage *)message)->settled = 1;
    }
    Py_RETURN_NONE;
}

/* Described in _receiving.pyi. */
static PyMethodDef methods[] = {
    {"runs", py_runs, METH_O, NULL},
    {"mark_settled", py_mark_settled, METH_VARARGS, NULL},
    {"decode_received", py_decode_received, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "litemq.client._receiving",
    .m_doc = "Received messages.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__receiving(void)
{
    prepare_crc32c();
    PyObject *self = PyModule_Create(&module);
    received_type = self == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&spec);
    if (received_type == NULL || PyModule_AddObjectRef(self, "ReceivedMessage", (PyObject *)received_type) != 0)
        Py_CLEAR(self);
    return self;
}

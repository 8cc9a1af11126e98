/* The part of a send that each message takes: its id, its record, its future, and later its receipt.
 *
 * Every type has an equivalent in Python, which replaces it if the extension is not built: see identity.py,
 * send_buffer.py and batch.py. A message that is not plain, or does not fit, is left to Python.
 *
 * Uses the limited API of Python 3.11: one build works with every later version.
 */
#include "../format/_native.h"

#include <structmember.h>
#include <time.h>

static PyObject *done_name, *set_result_name;

static void free_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static void *allocate(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

/* Message ids ----------------------------------------------------------------------------------- */

enum { MS_DIGITS = 12, RANDOM_DIGITS = 10, COUNT_DIGITS = 9, ID_BYTES = MS_DIGITS + RANDOM_DIGITS + COUNT_DIGITS };

typedef struct {
    PyObject_HEAD
    uint64_t ms, count;
    char random[RANDOM_DIGITS];
} MessageIds;

static void put_hex(char *to, int digits, uint64_t number)
{
    for (int digit = digits - 1; digit >= 0; digit--, number >>= 4)
        to[digit] = "0123456789abcdef"[number & 15];
}

static void next_id(MessageIds *ids, char id[ID_BYTES])
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (ms > ids->ms)
        ids->ms = ms;
    put_hex(id, MS_DIGITS, ids->ms);
    memcpy(id + MS_DIGITS, ids->random, RANDOM_DIGITS);
    put_hex(id + MS_DIGITS + RANDOM_DIGITS, COUNT_DIGITS, ids->count++);
}

static PyObject *new_message_ids(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named))
{
    const char *random;
    Py_ssize_t length;

    if (!PyArg_ParseTuple(args, "s#", &random, &length))
        return NULL;
    if (length != RANDOM_DIGITS)
        return PyErr_Format(PyExc_ValueError, "the random part has %d digits, not %zd", (int)RANDOM_DIGITS, length);
    MessageIds *self = allocate(type);
    if (self != NULL)
        memcpy(self->random, random, RANDOM_DIGITS);
    return (PyObject *)self;
}

static PyObject *py_next(PyObject *object, PyObject *Py_UNUSED(nothing))
{
    MessageIds *self = (MessageIds *)object;
    char id[ID_BYTES];

    next_id(self, id);
    return Py_BuildValue("s#K", id, (Py_ssize_t)ID_BYTES, (unsigned long long)self->ms);
}

static PyMethodDef id_methods[] = {
    {"next", py_next, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot id_slots[] = {
    {Py_tp_new, new_message_ids},
    {Py_tp_dealloc, free_object},
    {Py_tp_methods, id_methods},
    {0, NULL},
};

static PyType_Spec id_spec = {
    .name = "litemq.client._sending.MessageIds",
    .basicsize = sizeof(MessageIds),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = id_slots,
};

/* The bytes of a send buffer -------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    long long used, limit;
} ByteCount;

static PyObject *new_byte_count(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named))
{
    return allocate(type);
}

static PyMemberDef count_members[] = {
    {"used", T_LONGLONG, offsetof(ByteCount, used), 0, NULL},
    {"limit", T_LONGLONG, offsetof(ByteCount, limit), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot count_slots[] = {
    {Py_tp_new, new_byte_count},
    {Py_tp_dealloc, free_object},
    {Py_tp_members, count_members},
    {0, NULL},
};

static PyType_Spec count_spec = {
    .name = "litemq.client._sending.ByteCount",
    .basicsize = sizeof(ByteCount),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = count_slots,
};

/* A batch of messages --------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *records, *ids, *waiters; /* lists of equal length */
    Py_ssize_t size;
    unsigned long long first;
    char sealed;
    /* For plain messages; ``head`` is NULL until ``take_plain``. */
    PyObject *head, *id_source, *buffer, *new_future;
    Py_ssize_t head_bytes, max_record_bytes, max_bytes, max_messages;
    bool sequenced;
} Batch;

static PyObject *message_ids_type, *byte_count_type;

static PyObject *new_batch(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named))
{
    Batch *self = allocate(type);

    if (self == NULL)
        return NULL;
    self->records = PyList_New(0);
    self->ids = PyList_New(0);
    self->waiters = PyList_New(0);
    if (self->records == NULL || self->ids == NULL || self->waiters == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int traverse_batch(PyObject *object, visitproc visit, void *arg)
{
    Batch *self = (Batch *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->records);
    Py_VISIT(self->ids);
    Py_VISIT(self->waiters);
    Py_VISIT(self->id_source);
    Py_VISIT(self->buffer);
    Py_VISIT(self->new_future);
    return 0;
}

static int clear_batch(PyObject *object)
{
    Batch *self = (Batch *)object;
    Py_CLEAR(self->records);
    Py_CLEAR(self->ids);
    Py_CLEAR(self->waiters);
    Py_CLEAR(self->head);
    Py_CLEAR(self->id_source);
    Py_CLEAR(self->buffer);
    Py_CLEAR(self->new_future);
    return 0;
}

static void free_batch(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    clear_batch(object);
    free_object(object);
}

static bool has_lists(const Batch *self)
{
    if (self->records != NULL && PyList_CheckExact(self->records) && self->ids != NULL && PyList_CheckExact(self->ids) && self->waiters != NULL &&
        PyList_CheckExact(self->waiters))
        return true;
    PyErr_SetString(PyExc_TypeError, "a batch has lists of records, ids and waiters");
    return false;
}

/* True if ``head`` is the begin of a record with an id of ID_BYTES, up to its body. */
static bool is_head(const uint8_t *head, Py_ssize_t length)
{
    if (length < FIXED_BYTES || load_u16(head + SHORT_LENGTHS_AT + 2 * MESSAGE_ID) != ID_BYTES)
        return false;
    int64_t parts = FIXED_BYTES;
    for (int part = MESSAGE_ID; part < TAGS; part++)
        parts += load_u16(head + SHORT_LENGTHS_AT + 2 * part);
    for (int part = TAGS; part < BODY; part++)
        parts += load_u32(head + LONG_LENGTHS_AT + 4 * (part - TAGS));
    return parts == length;
}

static PyObject *py_take_plain(PyObject *object, PyObject *args)
{
    Batch *self = (Batch *)object;
    PyObject *head, *id_source, *buffer, *new_future;
    Py_ssize_t max_record_bytes, max_bytes, max_messages;
    int sequenced;

    if (!PyArg_ParseTuple(args, "SO!O!Onnnp", &head, message_ids_type, &id_source, byte_count_type, &buffer, &new_future, &max_record_bytes,
                          &max_bytes, &max_messages, &sequenced))
        return NULL;
    if (!is_head((const uint8_t *)PyBytes_AsString(head), PyBytes_Size(head)))
        return PyErr_Format(PyExc_ValueError, "this is not the begin of a record with an id of %d bytes", (int)ID_BYTES);
    PyObject *before[] = {self->head, self->id_source, self->buffer, self->new_future};
    self->head = Py_NewRef(head);
    self->id_source = Py_NewRef(id_source);
    self->buffer = Py_NewRef(buffer);
    self->new_future = Py_NewRef(new_future);
    self->head_bytes = PyBytes_Size(head);
    self->max_record_bytes = max_record_bytes;
    self->max_bytes = max_bytes;
    self->max_messages = max_messages;
    self->sequenced = sequenced;
    for (size_t number = 0; number < sizeof before / sizeof *before; number++)
        Py_XDECREF(before[number]);
    Py_RETURN_NONE;
}

/* The record of a plain message, or NULL. ``id`` becomes its id. */
static PyObject *make_record(const Batch *self, PyObject *body, Py_ssize_t size, const char id[ID_BYTES], uint64_t sequence)
{
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (result == NULL)
        return NULL;
    uint8_t *record = (uint8_t *)PyBytes_AsString(result);
    Py_ssize_t length = PyBytes_Size(body);
    memcpy(record, PyBytes_AsString(self->head), (size_t)self->head_bytes);
    memcpy(record + FIXED_BYTES, id, ID_BYTES);
    memcpy(record + self->head_bytes, PyBytes_AsString(body), (size_t)length);
    memset(record + self->head_bytes + length, 0, (size_t)(size - self->head_bytes - length));
    store_u32(record, (uint32_t)size);
    store_u64(record + BORN_TIMESTAMP_AT, ((const MessageIds *)self->id_source)->ms);
    store_u64(record + SEQUENCE_AT, sequence);
    store_u32(record + LONG_LENGTHS_AT + 4 * (BODY - TAGS), (uint32_t)length);
    store_u32(record + PRODUCER_CRC_AT, crc32c(0, record + PRODUCER_BYTES_AT, (size_t)size - PRODUCER_BYTES_AT));
    return result;
}

/* Append to the three lists, or to none. */
static bool append_all(Batch *self, PyObject *record, PyObject *id, PyObject *waiter)
{
    Py_ssize_t count = PyList_Size(self->records);

    if (PyList_Append(self->records, record) == 0 && PyList_Append(self->ids, id) == 0 && PyList_Append(self->waiters, waiter) == 0)
        return true;
    PyObject *lists[] = {self->records, self->ids, self->waiters};
    for (int number = 0; number < 3; number++)
        PyList_SetSlice(lists[number], count, count + 1, NULL);
    return false;
}

static PyObject *py_add(PyObject *object, PyObject *body)
{
    Batch *self = (Batch *)object;

    if (self->sealed || self->head == NULL || !PyBytes_CheckExact(body))
        Py_RETURN_NONE;
    /* The one call that can run Python code, so it comes before everything that depends on the batch. */
    PyObject *waiter = PyObject_CallNoArgs(self->new_future);
    if (waiter == NULL || !has_lists(self)) {
        Py_XDECREF(waiter);
        return NULL;
    }
    ByteCount *buffer = (ByteCount *)self->buffer;
    Py_ssize_t count = PyList_Size(self->records), most = self->max_record_bytes, size = self->head_bytes + PyBytes_Size(body);
    size = size <= most ? (size + 7) & ~7 : size;
    char id[ID_BYTES];
    bool fits = !self->sealed && buffer->used < buffer->limit && count < self->max_messages - 1 && size <= most && size <= UINT32_MAX &&
                self->size + size <= self->max_bytes;
    if (!fits) {
        Py_DECREF(waiter);
        Py_RETURN_NONE;
    }
    next_id((MessageIds *)self->id_source, id);
    PyObject *record = make_record(self, body, size, id, self->sequenced ? self->first + (uint64_t)count : 0);
    PyObject *text = PyUnicode_FromStringAndSize(id, ID_BYTES);
    bool added = record != NULL && text != NULL && append_all(self, record, text, waiter);
    Py_XDECREF(record);
    Py_XDECREF(text);
    if (!added) {
        Py_DECREF(waiter);
        return NULL;
    }
    self->size += size;
    buffer->used += size;
    return waiter;
}

/* Receipts, in the order of SendReceipt. */
enum Receipt { RECEIPT_TOPIC, RECEIPT_ID, RECEIPT_BROKER, RECEIPT_QUEUE, RECEIPT_OFFSET, RECEIPT_TIMESTAMP, RECEIPT_FIELDS };

typedef struct {
    PyTypeObject *type;
    PyObject *topic, *broker, *queue_id, *timestamp;
} Common;

static bool settle(const Common *common, PyObject *waiter, PyObject *id, long long offset)
{
    PyObject *is_done = PyObject_CallMethodObjArgs(waiter, done_name, NULL);
    if (is_done == NULL)
        return false;
    Py_DECREF(is_done);
    if (is_done == Py_True)
        return true; /* cancelled */
    PyObject *number = PyLong_FromLongLong(offset);
    if (number == NULL)
        return false;
    PyObject *values[RECEIPT_FIELDS] = {Py_NewRef(common->topic),    Py_NewRef(id), Py_NewRef(common->broker), Py_NewRef(common->queue_id), number,
                                        Py_NewRef(common->timestamp)};
    PyObject *receipt = named_tuple(common->type, values, RECEIPT_FIELDS);
    PyObject *result = receipt == NULL ? NULL : PyObject_CallMethodObjArgs(waiter, set_result_name, receipt, NULL);
    Py_XDECREF(receipt);
    Py_XDECREF(result);
    return result != NULL;
}

static PyObject *py_settle(PyObject *object, PyObject *args)
{
    Batch *self = (Batch *)object;
    Common common;
    long long offset;

    if (!PyArg_ParseTuple(args, "O!UUOLO", &PyType_Type, &common.type, &common.topic, &common.broker, &common.queue_id, &offset, &common.timestamp) ||
        !is_named_tuple(common.type) || !has_lists(self))
        return NULL;
    PyObject *ids = Py_NewRef(self->ids), *waiters = Py_NewRef(self->waiters);
    int step = offset >= 0;
    bool settled = true;
    for (Py_ssize_t number = 0; settled && number < PyList_Size(waiters); number++, offset += step) {
        PyObject *waiter = Py_XNewRef(PyList_GetItem(waiters, number)), *id = Py_XNewRef(PyList_GetItem(ids, number));
        settled = waiter != NULL && id != NULL && settle(&common, waiter, id, offset);
        Py_XDECREF(waiter);
        Py_XDECREF(id);
    }
    Py_DECREF(ids);
    Py_DECREF(waiters);
    if (!settled)
        return NULL;
    Py_RETURN_NONE;
}

/* Described in _sending.pyi. */
static PyMethodDef batch_methods[] = {
    {"take_plain", py_take_plain, METH_VARARGS, NULL},
    {"add", py_add, METH_O, NULL},
    {"settle", py_settle, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef batch_members[] = {
    {"records", T_OBJECT_EX, offsetof(Batch, records), 0, NULL},
    {"ids", T_OBJECT_EX, offsetof(Batch, ids), 0, NULL},
    {"waiters", T_OBJECT_EX, offsetof(Batch, waiters), 0, NULL},
    {"size", T_PYSSIZET, offsetof(Batch, size), 0, NULL},
    {"first", T_ULONGLONG, offsetof(Batch, first), 0, NULL},
    {"sealed", T_BOOL, offsetof(Batch, sealed), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_new, new_batch},
    {Py_tp_dealloc, free_batch},
    {Py_tp_traverse, traverse_batch},
    {Py_tp_clear, clear_batch},
    {Py_tp_methods, batch_methods},
    {Py_tp_members, batch_members},
    {0, NULL},
};

static PyType_Spec batch_spec = {
    .name = "litemq.client._sending.Batch",
    .basicsize = sizeof(Batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = batch_slots,
};

/* The module ------------------------------------------------------------------------------------ */

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "litemq.client._sending",
    .m_doc = "The part of a send that each message takes.",
    .m_size = 0,
};

static PyObject *add_type(PyObject *to, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type != NULL && PyModule_AddObjectRef(to, name, type) != 0)
        Py_CLEAR(type);
    return type;
}

PyMODINIT_FUNC PyInit__sending(void)
{
    prepare_crc32c();
    PyObject *self = PyModule_Create(&module);
    if (self == NULL)
        return NULL;
    done_name = PyUnicode_InternFromString("done");
    set_result_name = PyUnicode_InternFromString("set_result");
    message_ids_type = add_type(self, "MessageIds", &id_spec);
    byte_count_type = add_type(self, "ByteCount", &count_spec);
    PyObject *batch = add_type(self, "Batch", &batch_spec);
    bool is_complete = done_name != NULL && set_result_name != NULL && message_ids_type != NULL && byte_count_type != NULL && batch != NULL;
    Py_XDECREF(batch); /* the module has it; the other types stay for take_plain */
    if (!is_complete)
        Py_CLEAR(self);
    return self;
}

/* The thread that syncs the log, without the interpreter's lock.
 *
 * A thread in Python needs the lock before and after each sync, and takes it from the event loop. This one never
 * has it: the event loop reads `flushed`, and watches an event descriptor that becomes readable when a sync has
 * reached an offset that it awaits.
 *
 * Uses the limited API of Python 3.11: one build works with every later version.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* What the thread does. A signal costs a system call, and only a waiting thread needs it. */
enum Phase { BUSY, IDLE, LINGERING };

/* A blocking wait looks for signals of the operating system this often. */
enum { SIGNAL_CHECK_NS = 50 * 1000 * 1000 };

typedef struct {
    PyObject_HEAD
    pthread_mutex_t mutex;
    pthread_cond_t work;    /* for the thread */
    pthread_cond_t settled; /* for blocking waits: a sync has ended */
    pthread_t thread;
    int has_thread;
    int stopping;
    enum Phase phase;
    int event;              /* descriptor that the event loop watches */
    int *files;             /* descriptors that were written to since the last sync began */
    size_t file_count, file_capacity;
    int64_t written;        /* end of the written bytes */
    int64_t wanted;         /* the highest offset that a waiter needs */
    int64_t awaited;        /* the lowest offset that the event loop waits for; INT64_MAX: none */
    int64_t linger_ns;
    int blocked;            /* threads in wait() */
    _Atomic int64_t flushed;
    _Atomic int error;      /* errno of the failed sync, or ECANCELED; then the thread ends. 0: none */
} GroupSync;

static struct timespec later_by(int64_t nanoseconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += nanoseconds / 1000000000;
    at.tv_nsec += nanoseconds % 1000000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* The thread ------------------------------------------------------------------------------------ */

static int sync_files(const int *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        while (fdatasync(files[i]) != 0)
            if (errno != EINTR)
                return errno;
    return 0;
}

static void notify_loop(GroupSync *self)
{
    const uint64_t one = 1;
    ssize_t done;
    do
        done = write(self->event, &one, sizeof one);
    while (done < 0 && errno == EINTR); /* EAGAIN: it is readable already */
}

/* Wait until there is something to sync; with the mutex. Return 0 if the thread is to end. */
static int wait_for_work(GroupSync *self)
{
    while (self->written <= self->flushed && !self->stopping && self->error == 0) {
        self->phase = IDLE;
        pthread_cond_wait(&self->work, &self->mutex);
    }
    if (self->written <= self->flushed || self->error != 0)
        return 0;
    if (self->wanted <= self->flushed && !self->stopping) {
        /* Without a waiter, linger: one sync then covers more writes. */
        struct timespec until = later_by(self->linger_ns);
        int timed_out = 0;
        while (self->wanted <= self->flushed && !self->stopping && self->error == 0 && !timed_out) {
            self->phase = LINGERING;
            timed_out = pthread_cond_timedwait(&self->work, &self->mutex, &until) == ETIMEDOUT;
        }
    }
    self->phase = BUSY;
    return self->error == 0;
}

static void *run(void *argument)
{
    GroupSync *self = argument;
    int *files = NULL;
    size_t capacity = 0;

    pthread_mutex_lock(&self->mutex);
    while (wait_for_work(self)) {
        int64_t target = self->written;
        size_t count = self->file_count;
        int *taken = self->files;
        size_t taken_capacity = self->file_capacity;
        self->files = files;
        self->file_capacity = capacity;
        self->file_count = 0;
        pthread_mutex_unlock(&self->mutex);
        int error = sync_files(taken, count);
        files = taken;
        capacity = taken_capacity;
        pthread_mutex_lock(&self->mutex);
        if (error != 0)
            self->error = error;
        else
            self->flushed = target;
        if (self->blocked)
            pthread_cond_broadcast(&self->settled);
        if (error != 0 || self->awaited <= target) {
            self->awaited = INT64_MAX;
            notify_loop(self);
        }
        /* A failed sync is never repeated: the kernel may have dropped the pages, and would report success. */
    }
    self->phase = BUSY; /* no one signals it any more */
    pthread_mutex_unlock(&self->mutex);
    free(files);
    return NULL;
}

/* Methods --------------------------------------------------------------------------------------- */

/* Note that a waiter needs an offset; with the mutex. True if the thread must be woken. */
static int want_locked(GroupSync *self, int64_t offset)
{
    if (offset <= self->wanted)
        return 0;
    self->wanted = offset;
    if (self->phase != LINGERING)
        return 0;
    self->phase = BUSY;
    return 1;
}

/* Release the mutex, and wake the thread if needed: not before, or it would wait for the mutex. */
static void unlock_and_wake(GroupSync *self, int wakes)
{
    pthread_mutex_unlock(&self->mutex);
    if (wakes)
        pthread_cond_signal(&self->work);
}

static int add_file(GroupSync *self, int file)
{
    for (size_t i = self->file_count; i-- > 0;)
        if (self->files[i] == file)
            return 0;
    if (self->file_count == self->file_capacity) {
        size_t capacity = self->file_capacity ? 2 * self->file_capacity : 8;
        int *files = realloc(self->files, capacity * sizeof *files);
        if (files == NULL)
            return -1;
        self->files = files;
        self->file_capacity = capacity;
    }
    self->files[self->file_count++] = file;
    return 0;
}

static PyObject *py_written(PyObject *object, PyObject *args)
{
    GroupSync *self = (GroupSync *)object;
    int file, is_wanted;
    long long end;
    if (!PyArg_ParseTuple(args, "iLp", &file, &end, &is_wanted))
        return NULL;
    pthread_mutex_lock(&self->mutex);
    int failed = add_file(self, file), wakes = 0;
    if (!failed && end > self->written) {
        self->written = end;
        if (is_wanted)
            self->wanted = end;
        wakes = self->phase == IDLE || (is_wanted && self->phase == LINGERING);
        if (wakes)
            self->phase = BUSY;
    }
    unlock_and_wake(self, wakes);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_want(PyObject *object, PyObject *args)
{
    GroupSync *self = (GroupSync *)object;
    long long offset, awaited;
    if (!PyArg_ParseTuple(args, "LL", &offset, &awaited))
        return NULL;
    pthread_mutex_lock(&self->mutex);
    self->awaited = awaited;
    unlock_and_wake(self, want_locked(self, offset));
    Py_RETURN_NONE;
}

static PyObject *py_wait(PyObject *object, PyObject *args)
{
    GroupSync *self = (GroupSync *)object;
    long long offset;
    double timeout; /* below 0: none */
    if (!PyArg_ParseTuple(args, "Ld", &offset, &timeout))
        return NULL;
    int64_t left = timeout < 0 || timeout > 1e9 ? INT64_MAX : (int64_t)(timeout * 1e9);
    int settled;
    for (;;) {
        int64_t slice = left < SIGNAL_CHECK_NS ? left : SIGNAL_CHECK_NS;
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&self->mutex);
        if (want_locked(self, offset))
            pthread_cond_signal(&self->work);
        struct timespec until = later_by(slice);
        int timed_out = 0;
        self->blocked++;
        while (self->flushed < offset && self->error == 0 && !timed_out)
            timed_out = pthread_cond_timedwait(&self->settled, &self->mutex, &until) == ETIMEDOUT;
        self->blocked--;
        settled = self->flushed >= offset || self->error != 0;
        pthread_mutex_unlock(&self->mutex);
        Py_END_ALLOW_THREADS
        if (left != INT64_MAX)
            left -= slice;
        if (settled || left <= 0)
            return PyBool_FromLong(settled);
        if (PyErr_CheckSignals() != 0)
            return NULL;
    }
}

static PyObject *py_clear_event(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    GroupSync *self = (GroupSync *)object;
    uint64_t count;
    (void)!read(self->event, &count, sizeof count); /* not readable: cleared already */
    Py_RETURN_NONE;
}

static PyObject *py_abandon(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    GroupSync *self = (GroupSync *)object;
    pthread_mutex_lock(&self->mutex);
    int is_first = self->error == 0;
    if (is_first) {
        self->error = ECANCELED;
        if (self->blocked)
            pthread_cond_broadcast(&self->settled);
        notify_loop(self);
    }
    unlock_and_wake(self, is_first);
    Py_RETURN_NONE;
}

static void stop(GroupSync *self)
{
    if (!self->has_thread)
        return;
    self->has_thread = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    self->stopping = 1;
    pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    Py_END_ALLOW_THREADS
}

static PyObject *py_stop(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    stop((GroupSync *)object);
    Py_RETURN_NONE;
}

static PyObject *get_flushed(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((GroupSync *)object)->flushed);
}

static PyObject *get_error(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((GroupSync *)object)->error);
}

static PyObject *get_event(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((GroupSync *)object)->event);
}

/* The type -------------------------------------------------------------------------------------- */

static PyObject *new_group_sync(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    long long end;
    double linger;
    if (!PyArg_ParseTuple(args, "Ld", &end, &linger))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    GroupSync *self = (GroupSync *)allocate(type, 0); /* zeroed */
    if (self == NULL)
        return NULL;
    self->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (self->event < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->written = self->wanted = self->flushed = end;
    self->awaited = INT64_MAX;
    self->linger_ns = (int64_t)(linger * 1e9);
    self->phase = BUSY;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->work, &monotonic);
    pthread_cond_init(&self->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    /* Python handles the signals of the operating system in its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&self->thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->has_thread = 1;
#if defined(__linux__)
    pthread_setname_np(self->thread, "litemq-flusher");
#endif
    return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
    GroupSync *self = (GroupSync *)object;
    PyTypeObject *type = Py_TYPE(object);
    stop(self);
    if (self->event >= 0)
        close(self->event);
    free(self->files);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Described in _group_sync.pyi. */
static PyMethodDef methods[] = {
    {"written", py_written, METH_VARARGS, NULL},
    {"want", py_want, METH_VARARGS, NULL},
    {"wait", py_wait, METH_VARARGS, NULL},
    {"clear_event", py_clear_event, METH_NOARGS, NULL},
    {"abandon", py_abandon, METH_NOARGS, NULL},
    {"stop", py_stop, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"flushed", get_flushed, NULL, NULL, NULL},
    {"error", get_error, NULL, NULL, NULL},
    {"event", get_event, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_group_sync},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "litemq.storage.log._group_sync.GroupSync",
    .basicsize = sizeof(GroupSync),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "litemq.storage.log._group_sync",
    .m_doc = "The thread that syncs the log.",
    .m_size = 0,
};

PyMODINIT_FUNC PyInit__group_sync(void)
{
    PyObject *self = PyModule_Create(&module);
    PyObject *type = self == NULL ? NULL : PyType_FromSpec(&spec);
    if (type == NULL || PyModule_AddObjectRef(self, "GroupSync", type) != 0) {
        Py_XDECREF(type);
        Py_XDECREF(self);
        return NULL;
    }
    Py_DECREF(type);
    return self;
}

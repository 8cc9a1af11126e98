/* One record: find its parts, and check its rules. See decode_record, which explains what is wrong. */
#include "_native.h"

/* Each name is compared with all previous ones; with more names, Python uses a dict. */
enum { MAX_COMPARED_NAMES = 32 };

/* One record ------------------------------------------------------------------------------------ */

bool find_record(const Py_buffer *buffer, int64_t start, Record *record)
{
    if (!can_be_record(buffer, start))
        return false;
    record->bytes = (const uint8_t *)buffer->buf + start;
    read_once(record->fixed, record->bytes, FIXED_BYTES);
    record->size = load_u32(record->fixed);
    if (record->size < FIXED_BYTES || record->size > buffer->len - start)
        return false;
    int64_t at = FIXED_BYTES;
    for (int part = 0; part < PARTS; part++) {
        record->begins[part] = at;
        at += part < TAGS ? load_u16(record->fixed + SHORT_LENGTHS_AT + 2 * part) : load_u32(record->fixed + LONG_LENGTHS_AT + 4 * (part - TAGS));
    }
    record->begins[PARTS] = at;
    return at <= record->size;
}

/* Validation ------------------------------------------------------------------------------------ */

static bool all_zero(const uint8_t *at, int64_t length)
{
    for (; length > 0; at++, length--)
        if (*at != 0)
            return false;
    return true;
}

/* As an unsigned number, a negative time exceeds the latest, too. */
static bool is_time(const uint8_t *at)
{
    return load_u64(at) <= LATEST_TIME_MS;
}

static bool stamp_is_sound(const uint8_t *fixed)
{
    uint64_t origin = load_u64(fixed + ORIGIN_AT);
    return load_u64(fixed + COMMITLOG_OFFSET_AT) <= INT64_MAX && load_u64(fixed + QUEUE_OFFSET_AT) <= INT64_MAX &&
           is_time(fixed + STORE_TIMESTAMP_AT) && (origin <= INT64_MAX || origin == UINT64_MAX) && fixed[KIND_AT] <= 7 &&
           fixed[KIND_AT + 1] == 0;
}

static bool fields_are_sound(const uint8_t *fixed)
{
    uint32_t flags = load_u32(fixed + FLAGS_AT);
    return is_time(fixed + BORN_TIMESTAMP_AT) && is_time(fixed + DELAY_TIME_AT) && is_time(fixed + EXPIRE_AT_AT) && flags <= 15 &&
           (flags & 7) <= 2 && fixed[TYPE_AT] <= 4 && fixed[RELIABILITY_AT] <= 3 && fixed[RELIABILITY_AT + 1] == 0 &&
           load_u16(fixed + SHORT_LENGTHS_AT + 10) == 0;
}

static bool shape_is_sound(const Record *record, int64_t max_record_bytes)
{
    int64_t topic = length_of(part_of(record, TOPIC)), padding = record->size - record->begins[PARTS];
    return load_u32(record->fixed + 4) == MAGIC && record->size % 8 == 0 && record->size <= max_record_bytes && padding < 8 &&
           all_zero(record->bytes + record->begins[PARTS], padding) && length_of(part_of(record, MESSAGE_ID)) <= MAX_MESSAGE_ID_BYTES &&
           topic >= 1 && topic <= MAX_TOPIC_BYTES && length_of(part_of(record, PROPERTIES)) <= MAX_PROPERTIES_BYTES;
}

/* The length of the UTF-8 character here, 0 if invalid. The range of the second byte excludes overlong
 * encodings, surrogates, and values above the last character. */
static int bytes_of_character(Span text)
{
    uint8_t first = *text.begin, least = 0x80, most = 0xBF;
    int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;

    if (first < 0xC2 || first > 0xF4 || length > length_of(text))
        return 0;
    if (first == 0xE0)
        least = 0xA0;
    else if (first == 0xED)
        most = 0x9F;
    else if (first == 0xF0)
        least = 0x90;
    else if (first == 0xF4)
        most = 0x8F;
    if (text.begin[1] < least || text.begin[1] > most)
        return 0;
    for (int i = 2; i < length; i++)
        if ((text.begin[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

static bool is_utf8(Span text)
{
    while (text.begin < text.end) {
        uint64_t eight;
        if (length_of(text) >= 8 && (memcpy(&eight, text.begin, 8), (eight & 0x8080808080808080u) == 0)) {
            text.begin += 8;
        } else if (*text.begin < 0x80) {
            text.begin++;
        } else {
            int length = bytes_of_character(text);
            if (length == 0)
                return false;
            text.begin += length;
        }
    }
    return true;
}

static bool strings_are_sound(const Record *record)
{
    for (enum Part part = MESSAGE_ID; part < TAGS; part++)
        if (!is_utf8(part_of(record, part)))
            return false;
    return true;
}

static bool list_is_sound(Span list, int most, int most_bytes, int *count)
{
    Span string;

    for (*count = 0; list.begin < list.end; ++*count)
        if (*count == most || !next_string(&list, &string) || length_of(string) > most_bytes || !is_utf8(string))
            return false;
    return true;
}

static bool tags_are_sound(const Record *record)
{
    Span tags = part_of(record, TAGS);
    uint32_t claimed = load_u32(record->fixed + TAG_HASH_AT), hash = 0;
    int count;

    if (!list_is_sound(tags, MAX_TAGS, MAX_TAG_BYTES, &count))
        return false;
    if (count > 1) {
        hash = SEVERAL_TAGS;
    } else if (count == 1) {
        hash = crc32c(0, tags.begin + 2, (size_t)length_of(tags) - 2);
        if (hash == 0 || hash == SEVERAL_TAGS)
            hash = 1;
    }
    return hash == claimed;
}

static bool keys_are_sound(const Record *record)
{
    int count;
    return list_is_sound(part_of(record, KEYS), MAX_KEYS, MAX_KEY_BYTES, &count);
}

static bool properties_are_sound(const Record *record)
{
    Span list = part_of(record, PROPERTIES), names[MAX_COMPARED_NAMES], value;

    for (int count = 0; list.begin < list.end; count++) {
        if (count == MAX_COMPARED_NAMES || !next_string(&list, &names[count]) || !next_string(&list, &value))
            return false;
        if (!is_utf8(names[count]) || !is_utf8(value))
            return false;
        for (int before = 0; before < count; before++)
            if (are_same(names[before], names[count]))
                return false;
    }
    return true;
}

static bool crcs_are_right(const Record *record, bool stored)
{
    const uint8_t *fixed = record->fixed;
    size_t covered = (size_t)record->size - PRODUCER_BYTES_AT;

    if (crc32c(0, record->bytes + PRODUCER_BYTES_AT, covered) != load_u32(fixed + PRODUCER_CRC_AT))
        return false;
    return !stored || crc32c(0, fixed + STAMPED_BYTES_AT, PRODUCER_BYTES_AT - STAMPED_BYTES_AT) == load_u32(fixed + STAMP_AT);
}

bool record_is_sound(const Record *record, const Rules *rules)
{
    bool stamp = rules->stored ? stamp_is_sound(record->fixed) : all_zero(record->fixed + STAMP_AT, PRODUCER_BYTES_AT - STAMP_AT);
    return stamp && shape_is_sound(record, rules->max_record_bytes) && fields_are_sound(record->fixed) && strings_are_sound(record) &&
           tags_are_sound(record) && keys_are_sound(record) && properties_are_sound(record) &&
           (!rules->verify_crc || crcs_are_right(record, rules->stored));
}

bool is_stored_at(const Record *record, int64_t log_offset, int64_t queue_offset, uint32_t topic_id, uint32_t queue_id)
{
    const uint8_t *fixed = record->fixed;
    return load_u32(fixed + 4) == MAGIC && load_u64(fixed + COMMITLOG_OFFSET_AT) == (uint64_t)log_offset &&
           load_u64(fixed + QUEUE_OFFSET_AT) == (uint64_t)queue_offset && load_u32(fixed + TOPIC_ID_AT) == topic_id &&
           load_u32(fixed + QUEUE_ID_AT) == queue_id && crcs_are_right(record, true);
}

"""Rows, put together to series by the members that name them."""

cdef enum:
    MOST_MEMBERS = 32  # that name a row's series
    MOST_PROBES = 64  # in the table of series, before its hashes are taken to be made to collide


cdef struct Naming:
    # A member that names the series of a row.
    Text name
    Text value
    bint number


cdef struct Group:
    # A series: rows whose naming members are the same, byte for byte and in the same order.
    uint64_t hash
    Py_ssize_t first  # of its namings
    Py_ssize_t count
    int64_t rows
    Py_ssize_t next  # the series of the row behind one of this, as it was last


cdef struct Table:
    # What was read of a document.
    Column times
    Column values
    Column places  # of each row: its series
    Column namings
    Column groups
    Py_ssize_t* slots  # a series plus one, or 0
    Py_ssize_t mask
    Position end
    int marks
    Py_ssize_t rows  # about how many there may be


cdef struct Row:
    int64_t time
    double value
    Py_ssize_t rank  # of the member that the value stands in
    Py_ssize_t count
    Naming namings[MOST_MEMBERS]
    Py_ssize_t passed
    Text others[MOST_MEMBERS]  # names of members that are passed over


cdef inline uint64_t mixed(uint64_t hash, Text text) noexcept nogil:
    """Mix the bytes of a string into a hash."""
    cdef uint64_t chunk
    cdef Py_ssize_t done = 0, size
    while done < text.size:
        chunk = 0
        size = text.size - done if text.size - done < 8 else 8
        memcpy(&chunk, text.at + done, size)
        hash = (hash ^ chunk) * <uint64_t>0x9E3779B97F4A7C15
        hash ^= hash >> 29
        done += size
    return (hash ^ <uint64_t>text.size) * <uint64_t>0x9E3779B97F4A7C15


cdef bint is_of(Row* row, Group* group, Table* found) noexcept nogil:
    """Tell whether a row belongs to a series."""
    cdef Naming* naming
    cdef Naming* own
    cdef Py_ssize_t i
    if row.count != group.count or row.count == 0:
        return row.count == group.count
    naming = <Naming*>found.namings.data + group.first
    for i in range(row.count):
        own = &row.namings[i]
        if own.number != naming[i].number or own.value.size != naming[i].value.size:
            return False
        if own.name.size != naming[i].name.size or memcmp(own.name.at, naming[i].name.at, own.name.size) != 0:
            return False
        if memcmp(own.value.at, naming[i].value.at, own.value.size) != 0:
            return False
    return True


cdef Py_ssize_t place_of(Row* row, Py_ssize_t before, Table* found) noexcept nogil:
    """Give the series of a row, perhaps a new one; -1 to leave the document alone.

    Args:
        row: Of the document.
        before: The series of the row before it, or -1.
        found: All that was read.
    """
    cdef Group* groups = <Group*>found.groups.data
    cdef uint64_t hash = 0
    cdef Py_ssize_t i, place, slot
    if before >= 0 and groups[before].next >= 0 and is_of(row, &groups[groups[before].next], found):
        return groups[before].next
    for i in range(row.count):
        hash = mixed(hash, row.namings[i].value)
    if (found.groups.used + 1) * 2 > found.mask and not widen(found):
        return -1
    slot = <Py_ssize_t>(hash & <uint64_t>found.mask)
    for i in range(MOST_PROBES):
        place = found.slots[slot] - 1
        if place < 0:
            place = added(row, hash, found)
            if place >= 0:
                found.slots[slot] = place + 1
            break
        if groups[place].hash == hash and is_of(row, &groups[place], found):
            break
        slot = (slot + 1) & found.mask
    else:
        return -1
    if before >= 0 and place >= 0:
        (<Group*>found.groups.data)[before].next = place
    return place


cdef Py_ssize_t added(Row* row, uint64_t hash, Table* found) noexcept nogil:
    """Add the series of a row; -1 where there is no memory."""
    cdef Py_ssize_t i
    cdef Group group = Group(hash, found.namings.used, row.count, 0, -1)
    for i in range(row.count):
        if found.namings.used == found.namings.room and not grow(&found.namings, sizeof(Naming), 64):
            return -1
        (<Naming*>found.namings.data)[found.namings.used] = row.namings[i]
        found.namings.used += 1
    if found.groups.used == found.groups.room and not grow(&found.groups, sizeof(Group), 16):
        return -1
    (<Group*>found.groups.data)[found.groups.used] = group
    found.groups.used += 1
    return found.groups.used - 1


cdef bint widen(Table* found) noexcept nogil:
    """Make the table of series twice as wide; False where there is no memory."""
    cdef Py_ssize_t width = (found.mask + 1) * 2 if found.mask else 64
    cdef Py_ssize_t place, slot
    cdef Py_ssize_t* slots = <Py_ssize_t*>PyMem_RawMalloc(width * sizeof(Py_ssize_t))
    if slots == NULL:
        return False
    memset(slots, 0, width * sizeof(Py_ssize_t))
    for place in range(found.groups.used):
        slot = <Py_ssize_t>((<Group*>found.groups.data)[place].hash & <uint64_t>(width - 1))
        while slots[slot]:
            slot = (slot + 1) & (width - 1)
        slots[slot] = place + 1
    PyMem_RawFree(found.slots)
    found.slots = slots
    found.mask = width - 1
    return True


cdef bint sort_rows(Table* found) noexcept nogil:
    """Put the rows of each series side by side, in their order; False where there is no memory."""
    cdef Group* groups = <Group*>found.groups.data
    cdef int64_t* places = <int64_t*>found.places.data
    cdef Column times = Column(NULL, 0, 0)
    cdef Column values = Column(NULL, 0, 0)
    cdef Py_ssize_t i, begin = 0, at
    if found.groups.used < 2:
        return True
    if not grow(&times, sizeof(int64_t), found.times.used) or not grow(&values, sizeof(double), found.times.used):
        PyMem_RawFree(times.data)
        return False
    for i in range(found.groups.used):  # from here on, rows is where the next one goes
        at = begin
        begin += groups[i].rows
        groups[i].rows = at
    for i in range(found.times.used):
        at = groups[places[i]].rows
        groups[places[i]].rows += 1
        (<int64_t*>times.data)[at] = (<int64_t*>found.times.data)[i]
        (<double*>values.data)[at] = (<double*>found.values.data)[i]
    times.used = values.used = found.times.used
    PyMem_RawFree(found.times.data)
    PyMem_RawFree(found.values.data)
    found.times, found.values = times, values
    return True

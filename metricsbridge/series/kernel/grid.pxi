"""Columns to a grid: ``metricsbridge.series.align``."""

cdef enum:
    MEAN, MAX, MIN, SUM, COUNT, FIRST, LAST
    NONE, PREVIOUS, LINEAR

_HOW = {"mean": MEAN, "max": MAX, "min": MIN, "sum": SUM, "count": COUNT, "first": FIRST, "last": LAST}
_FILL = {None: NONE, "previous": PREVIOUS, "linear": LINEAR}


cdef struct Grid:
    int64_t start  # of the first cell
    int64_t step
    int64_t first  # samples from here
    int64_t end  # to here, exclusive, count
    Py_ssize_t cells
    int how
    int fill


def align(
    const int64_t[::1] offsets, const int64_t[::1] times, const double[::1] values, window, int64_t start,
    int64_t step, str how, fill, const int64_t[::1] reach, double[:, ::1] out,
):
    """Write what each cell says of its samples; gives the rows whose samples are not in order, not written to.

    Args:
        offsets: int64[S + 1]; row ``i`` holds the samples ``offsets[i]:offsets[i + 1]``.
        times: int64[N].
        values: float64[N].
        window: Start and end, ms.
        start: Of the first cell.
        step: Of a cell, ms.
        how: What a cell says.
        fill: How gaps are bridged, None for not at all.
        reach: int64[S], the longest gap, in cells.
        out: float64[S, T].
    """
    cdef Grid grid
    cdef Py_ssize_t row
    cdef Column late = Column(NULL, 0, 0)
    cdef int64_t no_time = 0
    cdef double no_value = 0
    cdef const int64_t* time = &no_time
    cdef const double* value = &no_value
    cdef bint full = False
    if (
        offsets.shape[0] != out.shape[0] + 1 or reach.shape[0] != out.shape[0] or times.shape[0] != values.shape[0]
        or offsets[0] != 0 or offsets[out.shape[0]] != times.shape[0]
    ):
        raise ValueError("the columns do not fit each other")
    for row in range(out.shape[0]):
        if offsets[row] > offsets[row + 1]:
            raise ValueError("offsets must not fall")
    farthest = 2**62
    if step < 1 or start < -farthest or int(start) + int(step) * out.shape[1] > farthest:
        raise ValueError("the grid reaches beyond what int64 can reckon with")
    grid.first, grid.end = window
    grid.start, grid.step, grid.cells = start, step, out.shape[1]
    grid.how, grid.fill = _HOW[how], _FILL[fill]
    if grid.first < start or grid.end > start + step * <int64_t>grid.cells or out.shape[1] == 0:
        raise ValueError("the grid must cover the window")
    if times.shape[0]:
        time, value = &times[0], &values[0]
    try:
        with nogil:
            for row in range(out.shape[0]):
                if not one_row(time + offsets[row], value + offsets[row], offsets[row + 1] - offsets[row], &grid,
                               &out[row, 0]):
                    if not add_whole(&late, row, 16):
                        full = True
                        break
                elif grid.fill != NONE and grid.how != COUNT:
                    bridge(&out[row, 0], grid.cells, reach[row], grid.fill)
        if full:
            raise MemoryError
        return [(<int64_t*>late.data)[row] for row in range(late.used)]
    finally:
        PyMem_RawFree(late.data)


cdef inline bint one_row(
    const int64_t* times, const double* values, Py_ssize_t count, const Grid* grid, double* out
) noexcept nogil:
    """Write one row; False where its samples are not in order."""
    if grid.how == MEAN:
        return cells_of(times, values, count, grid, out, MEAN)
    if grid.how == SUM:
        return cells_of(times, values, count, grid, out, SUM)
    if grid.how == COUNT:
        return cells_of(times, values, count, grid, out, COUNT)
    if grid.how == MAX:
        return cells_of(times, values, count, grid, out, MAX)
    if grid.how == MIN:
        return cells_of(times, values, count, grid, out, MIN)
    if grid.how == FIRST:
        return cells_of(times, values, count, grid, out, FIRST)
    return cells_of(times, values, count, grid, out, LAST)


cdef inline bint cells_of(
    const int64_t* times, const double* values, Py_ssize_t count, const Grid* grid, double* out, const int how
) noexcept nogil:
    """Do the work for one ``how``, which the compiler knows where it is called.

    As times rise, only the sample that opens a cell need be held against the window: ``end``, where the open cell ends,
    is never beyond the window's. What comes before the window is summed up and forgotten when the first cell opens.
    """
    cdef Py_ssize_t i = 0, cell = -1, next
    cdef int64_t time, before = INT64_MIN, end = grid.first, edge = grid.start
    cdef int64_t held = 0
    cdef double value, sum = 0.0
    cdef double empty = 0.0 if how == COUNT else NAN
    if count and times[0] == INT64_MIN:  # before any window
        i = 1
    for i in range(i, count):
        time = times[i]
        if time <= before:
            return False
        before = time
        value = values[i]
        if value != value:
            continue
        if time >= end:  # the next cell
            if time >= grid.end:
                break
            if cell >= 0:
                out[cell] = said(how, sum, held)
            next = cell + 1
            if time >= edge + grid.step:
                next = (time - grid.start) // grid.step
                edge = grid.start + next * grid.step
                for cell in range(cell + 1, next):
                    out[cell] = empty
            cell = next
            edge += grid.step
            end = edge if edge < grid.end else grid.end
            held = 0
            sum = 0.0 if how == MEAN or how == SUM else value
        held += 1
        if how == MEAN or how == SUM:
            sum += value
        elif (how == MAX and value > sum) or (how == MIN and value < sum) or how == LAST:
            sum = value
    for i in range(i + 1, count):  # behind the window
        if times[i] <= before:
            return False
        before = times[i]
    if cell >= 0:
        out[cell] = said(how, sum, held)
    for cell in range(cell + 1, grid.cells):
        out[cell] = empty
    return True


cdef inline double said(const int how, double sum, int64_t held) noexcept nogil:
    if how == MEAN:
        return sum if held == 1 else sum / <double>held
    if how == COUNT:
        return <double>held
    if how == MAX or how == MIN:
        return sum + 0.0  # of zeros, the positive one
    return sum


cdef inline void bridge(double* row, Py_ssize_t cells, int64_t reach, int fill) noexcept nogil:
    """Fill the gaps of a row in place, those of at most ``reach`` cells."""
    cdef Py_ssize_t cell, left = -1, gap
    cdef double rise
    for cell in range(cells):
        if row[cell] != row[cell]:
            if fill == PREVIOUS and left >= 0 and cell - left <= reach:
                row[cell] = row[left]
            continue
        if fill == LINEAR and left >= 0 and 1 < cell - left and cell - left - 1 <= reach:
            rise = row[cell] - row[left]
            for gap in range(left + 1, cell):
                row[gap] = row[left] + rise * (<double>(gap - left) / <double>(cell - left))
        left = cell

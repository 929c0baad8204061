/* The tour in one program: moves a distributed array there and back, checks it, and times it against a plain copy.
 *
 *   boxwise-run -n 4 ./demo [--shape NZ,NY,NX] [--element-size BYTES] [--from LAYOUT] [--to LAYOUT]
 *                           [--memory shared|plain] [--repeat N]
 *
 * --help explains these.
 */
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#include <time.h>

#include "check.h"

static const char usage[] =
    "usage: demo [--shape NZ,NY,NX] [--element-size BYTES] [--from LAYOUT] [--to LAYOUT]\n"
    "            [--memory shared|plain] [--repeat N]\n"
    "\n"
    "--shape NZ,NY,NX       the global array, x fastest in memory; default 256,256,256\n"
    "--element-size BYTES   bytes of one element, 1 to 65536; default 16, a complex number of two doubles\n"
    "--from, --to LAYOUT    how the ranks hold the array before and after; default slab:0 and pencil:0\n"
    "    slab:D             every rank has some of the planes: dimension D is cut evenly, the others are whole\n"
    "    pencil:D           dimension D is whole, the other two are cut by a grid of ranks, as square as can be\n"
    "                       D is 0 for z, 1 for y, 2 for x\n"
    "--memory shared        the arrays lie in memory from boxwise_malloc: one pass; the default\n"
    "--memory plain         they lie in memory from malloc\n"
    "--repeat N             how many times each move is timed; default 21\n";

typedef struct {
    int64_t shape[3];
    int64_t element_size, repeat;
    const char *from, *to, *memory;
} settings_t;

/* ---- what the user asks for ---- */

static int parse_number(const char *text, const char **end, int64_t most, int64_t *number)
{
    char *stop;
    *number = strtoll(text, &stop, 10);
    *end = stop;
    return stop != text && *number >= 1 && *number <= most;
}

/* "slab:D" or "pencil:D": the number of the dimension, else -1. */
static int layout_dimension(const char *layout, const char *kind)
{
    const size_t length = strlen(kind);
    if (strncmp(layout, kind, length) != 0 || layout[length] < '0' || layout[length] > '2' || layout[length + 1] != 0)
        return -1;
    return layout[length] - '0';
}

/* These return what is wrong, NULL if nothing. */

static const char *parse_shape(int64_t *shape, const char *value)
{
    for (int d = 0; d < 3; d++) {
        if (!parse_number(value, &value, INT32_MAX, &shape[d]) || *value != (d < 2 ? ',' : 0))
            return "must be three numbers from 1 to 2147483647, as in 256,256,256";
        value++;
    }
    return NULL;
}

static const char *parse_option(settings_t *settings, const char *name, const char *value)
{
    const char *end;
    if (strcmp(name, "--shape") == 0)
        return parse_shape(settings->shape, value);
    if (strcmp(name, "--element-size") == 0)
        return parse_number(value, &end, 65536, &settings->element_size) && *end == 0
                   ? NULL
                   : "must be a number from 1 to 65536";
    if (strcmp(name, "--repeat") == 0)
        return parse_number(value, &end, 1000000, &settings->repeat) && *end == 0 ? NULL
                                                                                  : "must be a number from 1 to 1000000";
    if (strcmp(name, "--memory") == 0) {
        settings->memory = value;
        return strcmp(value, "shared") == 0 || strcmp(value, "plain") == 0 ? NULL : "must be shared or plain";
    }
    *(strcmp(name, "--from") == 0 ? &settings->from : &settings->to) = value;
    return layout_dimension(value, "slab:") >= 0 || layout_dimension(value, "pencil:") >= 0
               ? NULL
               : "must be slab:D or pencil:D, with D 0 for z, 1 for y or 2 for x";
}

static int is_option(const char *name)
{
    static const char *const names[] = {"--shape", "--element-size", "--from", "--to", "--memory", "--repeat"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* The faulty argument goes to `name` and `value`, which is NULL if there is none. */
static const char *parse(settings_t *settings, int argc, char **argv, const char **name, const char **value)
{
    for (int i = 1; i < argc; i += 2) {
        *name = argv[i];
        *value = NULL;
        if (!is_option(argv[i]))
            return "there is no such option";
        if (i + 1 == argc)
            return "needs a value";
        *value = argv[i + 1];
        const char *fault = parse_option(settings, argv[i], argv[i + 1]);
        if (fault != NULL)
            return fault;
    }
    int64_t bytes = settings->element_size;
    for (int d = 0; d < 3; d++) {
        *name = "--shape";
        *value = NULL;
        if (settings->shape[d] > INT64_MAX / bytes)
            return "the array has more bytes than can be counted";
        bytes *= settings->shape[d];
    }
    return NULL;
}

/* Whether somebody asks for help, anywhere. */
static int asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return 1;
    return 0;
}

static box_t box_of(const settings_t *settings, const char *layout, int32_t size, int32_t rank)
{
    const int64_t *shape = settings->shape;
    box_t box = {{0, 0, 0}, {shape[0], shape[1], shape[2]}};
    const int slab = layout_dimension(layout, "slab:"), pencil = layout_dimension(layout, "pencil:");
    if (slab >= 0) {
        box_split(&box, slab, shape[slab], size, rank);
    } else {
        const int first = pencil == 0 ? 1 : 0, second = pencil == 2 ? 1 : 2;
        const int32_t rows = grid_rows(size), columns = size / rows;
        box_split(&box, first, shape[first], rows, rank / columns);
        box_split(&box, second, shape[second], columns, rank % columns);
    }
    return box;
}

/* ---- elements of any size, each with bytes of its own ---- */

static void element_at(const settings_t *settings, int64_t z, int64_t y, int64_t x, unsigned char *element)
{
    const size_t size = (size_t)settings->element_size;
    const uint64_t index = (uint64_t)((z * settings->shape[1] + y) * settings->shape[2] + x);
    for (size_t done = 0; done < size; done += 8) {
        uint64_t word = (index + 1) * 0x9E3779B97F4A7C15u + done;
        word ^= word >> 29;
        memcpy(element + done, &word, size - done < 8 ? size - done : 8);
    }
}

/* Writes the elements of a box (`check` 0), or counts those that are wrong. */
static int64_t walk(const settings_t *settings, const box_t *box, unsigned char *data, int check)
{
    const size_t size = (size_t)settings->element_size;
    int64_t wrong = 0;
    unsigned char *element = malloc(size);
    if (element == NULL)
        exit(EXIT_FAILURE);
    for (int64_t z = box->lower[0]; z < box->upper[0]; z++)
        for (int64_t y = box->lower[1]; y < box->upper[1]; y++)
            for (int64_t x = box->lower[2]; x < box->upper[2]; x++, data += size) {
                element_at(settings, z, y, x, element);
                if (!check)
                    memcpy(data, element, size);
                else if (memcmp(data, element, size) != 0)
                    wrong++;
            }
    free(element);
    return wrong;
}

static void poison_bytes(unsigned char *data, size_t bytes)
{
    if (bytes > 0) /* an empty box may have no memory */
        memset(data, 0xA5, bytes);
}

/* ---- memory ---- */

static void *allocate(const settings_t *settings, boxwise_comm_t comm, size_t bytes)
{
    void *memory;
    if (strcmp(settings->memory, "shared") == 0) {
        CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, bytes, &memory));
    } else if ((memory = malloc(bytes + 1)) == NULL) {
        fprintf(stderr, "demo: no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void release(const settings_t *settings, boxwise_comm_t comm, void *memory)
{
    if (strcmp(settings->memory, "shared") == 0)
        CHECK(boxwise_free(comm, memory));
    else
        free(memory);
}

/* Ordinary pages, already there, for the copy that everything is compared with. */
static void *ordinary_pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "demo: no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    madvise(memory, bytes + 1, MADV_NOHUGEPAGE);
    memset(memory, 1, bytes + 1);
    return memory;
}

/* ---- the table of ranks ---- */

enum { ROW = 15 }; /* input box, output box, bytes kept, sent, received */

static void write_box(char *text, size_t capacity, const int64_t *lower, const int64_t *upper)
{
    snprintf(text, capacity, "[%" PRId64 ":%" PRId64 ", %" PRId64 ":%" PRId64 ", %" PRId64 ":%" PRId64 "]", lower[0],
             upper[0], lower[1], upper[1], lower[2], upper[2]);
}

static void print_ranks(boxwise_comm_t comm, boxwise_handle_t handle, const box_t *input, const box_t *output)
{
    int32_t rank, size;
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));
    boxwise_info_t info = {.struct_size = sizeof info};
    CHECK(boxwise_get_info(handle, &info));

    int64_t row[ROW];
    memcpy(row, input, sizeof *input);
    memcpy(row + 6, output, sizeof *output);
    row[12] = (int64_t)info.bytes_kept;
    row[13] = (int64_t)info.bytes_sent;
    row[14] = (int64_t)info.bytes_received;
    int64_t *rows = calloc((size_t)size * ROW, sizeof *rows);
    if (rows == NULL)
        exit(EXIT_FAILURE);
    gather(comm, row, ROW, rows);
    if (rank == 0) {
        char from[160], to[160];
        int width = 12;
        for (int32_t r = 0; r < size; r++) {
            write_box(from, sizeof from, rows + r * ROW, rows + r * ROW + 3);
            write_box(to, sizeof to, rows + r * ROW + 6, rows + r * ROW + 9);
            width = (int)strlen(from) > width ? (int)strlen(from) : width;
            width = (int)strlen(to) > width ? (int)strlen(to) : width;
        }
        printf("rank  %-*s  %-*s  %14s  %14s  %14s\n", width, "input z, y, x", width, "output z, y, x", "bytes kept",
               "sent", "received");
        for (int32_t r = 0; r < size; r++) {
            const int64_t *this = rows + r * ROW;
            write_box(from, sizeof from, this, this + 3);
            write_box(to, sizeof to, this + 6, this + 9);
            printf("%4" PRId32 "  %-*s  %-*s  %14" PRId64 "  %14" PRId64 "  %14" PRId64 "\n", r, width, from, width, to,
                   this[12], this[13], this[14]);
        }
    }
    free(rows);
}

/* ---- time ---- */

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* one clock for all processes of a node */
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the repetitions of the time from the first rank's start to the last rank's end. In `times` a rank's
 * row has start and end of each `phase` of `phases` of each repetition. */
static double median_s(const double *times, int32_t size, int64_t repeat, int64_t phases, int64_t phase)
{
    double *spans = malloc((size_t)repeat * sizeof *spans);
    if (spans == NULL)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < repeat; i++) {
        double start = 0, end = 0;
        for (int32_t r = 0; r < size; r++) {
            const double *pair = times + 2 * ((r * repeat + i) * phases + phase);
            start = r == 0 || pair[0] < start ? pair[0] : start;
            end = r == 0 || pair[1] > end ? pair[1] : end;
        }
        spans[i] = end - start;
    }
    qsort(spans, (size_t)repeat, sizeof *spans, compare);
    const double median = (spans[(repeat - 1) / 2] + spans[repeat / 2]) / 2;
    free(spans);
    return median;
}

static void print_speed(const char *from, const char *to, double bytes, double time_s, double copy_s)
{
    char what[64];
    snprintf(what, sizeof what, "%s%s%s", from, *to != 0 ? " to " : "", to);
    printf("%-24s  %10.3f ms  %9.2f GB/s  %15.2f\n", what, 1e3 * time_s, 2 * bytes / time_s / 1e9, copy_s / time_s);
}

int main(int argc, char **argv)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));
    settings_t settings = {{256, 256, 256}, 16, 21, "slab:0", "pencil:0", "shared"};
    if (asks_for_help(argc, argv)) {
        if (rank == 0)
            fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    const char *name, *value, *fault = parse(&settings, argc, argv, &name, &value);
    if (fault != NULL) {
        if (rank == 0)
            fprintf(stderr, "demo: %s%s%s: %s\n\n%s", name, value != NULL ? " " : "", value != NULL ? value : "", fault,
                    usage);
        return 2;
    }
    const int64_t *shape = settings.shape, repeat = settings.repeat;
    const size_t element_size = (size_t)settings.element_size;
    if (rank == 0)
        printf("boxwise %s: %" PRId64 " x %" PRId64 " x %" PRId64 " elements of %zu bytes on %" PRId32
               " rank%s, %s to %s and back, %s memory\n\n",
               boxwise_version_string(), shape[0], shape[1], shape[2], element_size, size, size == 1 ? "" : "s",
               settings.from, settings.to, settings.memory);

    /* Plan both ways. */
    const box_t input = box_of(&settings, settings.from, size, rank);
    const box_t output = box_of(&settings, settings.to, size, rank);
    boxwise_handle_t forward, backward;
    CHECK(boxwise_create(&forward));
    CHECK(boxwise_create(&backward));
    CHECK(boxwise_make(forward, element_size, 3, input.lower, input.upper, NULL, output.lower, output.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));
    CHECK(boxwise_make(backward, element_size, 3, output.lower, output.upper, NULL, input.lower, input.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));
    print_ranks(comm, forward, &input, &output);

    /* There and back, with every element looked at. */
    const size_t input_bytes = box_elements(&input) * element_size, output_bytes = box_elements(&output) * element_size;
    unsigned char *here = allocate(&settings, comm, input_bytes), *there = allocate(&settings, comm, output_bytes);
    walk(&settings, &input, here, 0);
    poison_bytes(there, output_bytes);
    CHECK(boxwise_exec_async(forward, there, here, NULL, NULL));
    int64_t wrong = walk(&settings, &output, there, 1);
    poison_bytes(here, input_bytes);
    CHECK(boxwise_exec_async(backward, here, there, NULL, NULL));
    wrong += walk(&settings, &input, here, 1);
    if (wrong > 0) {
        fprintf(stderr, "demo: rank %" PRId32 ": %" PRId64 " elements are wrong\n", rank, wrong);
        return EXIT_FAILURE;
    }
    if (rank == 0)
        printf("\n");
    report(comm, (int64_t)(box_elements(&input) + box_elements(&output)), "every one is right, there and back");

    /* Each repetition: there, back, and the same bytes copied within each process. */
    enum { THERE, BACK, COPY, PHASES };
    unsigned char *source = ordinary_pages(input_bytes), *target = ordinary_pages(input_bytes);
    double *mine = calloc((size_t)(2 * PHASES * repeat), sizeof *mine);
    double *all = calloc((size_t)(2 * PHASES * repeat * size), sizeof *all);
    if (mine == NULL || all == NULL)
        return EXIT_FAILURE;
    for (int64_t i = 0; i < PHASES * repeat; i++) {
        CHECK(boxwise_comm_barrier(comm));
        mine[2 * i] = now_s();
        if (i % PHASES == THERE)
            CHECK(boxwise_exec_async(forward, there, here, NULL, NULL));
        else if (i % PHASES == BACK)
            CHECK(boxwise_exec_async(backward, here, there, NULL, NULL));
        else
            memcpy(target, source, input_bytes);
        mine[2 * i + 1] = now_s();
    }
    gather(comm, mine, 2 * PHASES * repeat, all);
    if (rank == 0) {
        const double bytes = (double)shape[0] * (double)shape[1] * (double)shape[2] * (double)element_size;
        const double copy_s = median_s(all, size, repeat, PHASES, COPY);
        printf("\n%-24s  %13s  %14s  %s\n", "", "median", "read + written", "of a plain copy");
        print_speed(settings.from, settings.to, bytes, median_s(all, size, repeat, PHASES, THERE), copy_s);
        print_speed(settings.to, settings.from, bytes, median_s(all, size, repeat, PHASES, BACK), copy_s);
        print_speed("plain copy", "", bytes, copy_s, copy_s);
        printf("\nplain copy: every process copies its part within its own memory (memcpy, ordinary pages), all at once\n");
    }

    free(all);
    free(mine);
    munmap(target, input_bytes + 1);
    munmap(source, input_bytes + 1);
    release(&settings, comm, there);
    release(&settings, comm, here);
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}

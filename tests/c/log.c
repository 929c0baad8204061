/* The library prints nothing unless BOXWISE_LOG asks for it, and then only to stderr, one whole line at a time. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* What a process prints that makes two mistakes, with these variables set; NULL leaves one unset. */
static void print(const char *level, const char *rank, FILE *out, FILE *err) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unsetenv("BOXWISE_LOG");
        unsetenv("BOXWISE_RANK");
        if (level != NULL) {
            setenv("BOXWISE_LOG", level, 1);
        }
        if (rank != NULL) {
            setenv("BOXWISE_RANK", rank, 1);
        }
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        boxwise_handle_t handle;
        int right = boxwise_create(&handle) == BOXWISE_SUCCESS;
        right &= boxwise_set_option(handle, 99, 0) == BOXWISE_ERROR_INVALID_ARGUMENT;
        right &= boxwise_get_size(handle, NULL) == BOXWISE_ERROR_INVALID_STATE;
        right &= boxwise_destroy(handle) == BOXWISE_SUCCESS;
        fflush(NULL);
        _exit(right ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The texts must come in this order and be all that is printed, but for what stands between them in a line. */
static void check_prints(const char *level, const char *rank, int lines, const char *const *texts) {
    char printed[4096] = "";
    FILE *out = tmpfile(), *err = tmpfile();
    CHECK(out != NULL && err != NULL);
    print(level, rank, out, err);
    fseek(out, 0, SEEK_END);
    CHECK(ftell(out) == 0);
    rewind(err);
    int seen = 0;
    while (fgets(printed, sizeof printed, err) != NULL) {
        CHECK(seen < lines);
        CHECK(strncmp(printed, texts[seen], strlen(texts[seen])) == 0);
        CHECK(printed[strlen(printed) - 1] == '\n');
        seen += 1;
    }
    CHECK(seen == lines);
    fclose(out);
    fclose(err);
}

int main(void) {
    const char *const errors[] = {"boxwise error: boxwise_set_option: option is 99, must be ",
                                  "boxwise error: boxwise_get_size: handle was not made"};
    const char *const with_rank[] = {"boxwise[3] error: boxwise_set_option: ", "boxwise[3] error: boxwise_get_size: "};
    const char *const warning[] = {"boxwise warn: BOXWISE_LOG is \"loud\", must be "};
    check_prints(NULL, NULL, 0, NULL);
    check_prints("", NULL, 0, NULL);
    check_prints("off", NULL, 0, NULL);
    check_prints("error", NULL, 2, errors);
    check_prints("TRACE", NULL, 2, errors);
    check_prints("error", "3", 2, with_rank);
    check_prints("loud", NULL, 1, warning);
    return checks_done();
}

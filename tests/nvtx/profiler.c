/* A profiler for tests, loaded by NVTX as NVTX_INJECTION64_PATH says: appends a line for each range that begins or ends
 * to the file that TEST_PROFILE names. */
#include <nvtx3/nvToolsExt.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* In one piece, because several processes write. */
static void note(const char *what, const char *name)
{
    char line[200];
    const int length = snprintf(line, sizeof line, "%s %s\n", what, name);
    const int file = open(getenv("TEST_PROFILE"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || write(file, line, length) != length)
        abort();
    close(file);
}

static int begin(const char *name)
{
    note("begin", name);
    return 0;
}

static int end(void)
{
    note("end", "");
    return 0;
}

/* What NVTX calls; its name and type are NVTX's. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)begin;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)end;
    return 1;
}

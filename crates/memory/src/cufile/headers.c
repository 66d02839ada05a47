/* Prints what the tables of this module rest on, by one published cufile.h: a name and a number a line.
 * VERSION is the header's, 1000 for each major one and 10 for each minor one. The library, named by the first
 * argument, is asked for its version and for parameters that only later ones have. */
#include <cufile.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#define SAY(name, number) printf("%s %ld\n", name, (long)(number))
#define WORD(structure, field) (offsetof(structure, field) / 8)

int main(int count, char **arguments) {
    SAY("sizeof CUfileError_t", sizeof(CUfileError_t));
    SAY("sizeof CUfileDescr_t", sizeof(CUfileDescr_t));
    SAY("CUfileDescr_t.handle", offsetof(CUfileDescr_t, handle));
    SAY("CUfileDescr_t.fs_ops", offsetof(CUfileDescr_t, fs_ops));
    SAY("OPAQUE_FD", CU_FILE_HANDLE_TYPE_OPAQUE_FD);
    SAY("sizeof CUfileDrvProps_t", sizeof(CUfileDrvProps_t));
    SAY("major_version", offsetof(CUfileDrvProps_t, nvfs.major_version));
    SAY("minor_version", offsetof(CUfileDrvProps_t, nvfs.minor_version));
    SAY("dcontrolflags", offsetof(CUfileDrvProps_t, nvfs.dcontrolflags));
    SAY("max_device_pinned_mem_size", offsetof(CUfileDrvProps_t, max_device_pinned_mem_size));
    SAY("ALLOW_COMPAT_MODE bit", CU_FILE_ALLOW_COMPAT_MODE);
    SAY("NVME", CU_FILE_NVME_SUPPORTED);
    SAY("NVMEOF", CU_FILE_NVMEOF_SUPPORTED);
#define CUFILE_OP(code, name, string) SAY(#name, code);
    CUFILEOP_STATUS_ENTRIES
#if VERSION >= 1140
    SAY("ALLOW_COMPAT_MODE", CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
    SAY("FORCE_COMPAT_MODE", CUFILE_PARAM_FORCE_COMPAT_MODE);
    SAY("USE_PCIP2PDMA", CUFILE_PARAM_USE_PCIP2PDMA);
#endif
#if VERSION >= 1150
    SAY("sizeof CUfileStatsLevel3_t", sizeof(CUfileStatsLevel3_t) / 8);
    SAY("num_gpus", WORD(CUfileStatsLevel3_t, num_gpus));
    SAY("num_gpus in its word", offsetof(CUfileStatsLevel3_t, num_gpus) % 8);
    SAY("per_gpu_stats", WORD(CUfileStatsLevel3_t, per_gpu_stats));
    SAY("sizeof CUfilePerGpuStats_t", sizeof(CUfilePerGpuStats_t) / 8);
    SAY("GPUs", sizeof(((CUfileStatsLevel3_t *)0)->per_gpu_stats) / sizeof(CUfilePerGpuStats_t));
    SAY("n_p2p_reads", WORD(CUfilePerGpuStats_t, n_p2p_reads));
    SAY("n_nvfs_reads", WORD(CUfilePerGpuStats_t, n_nvfs_reads));
    SAY("n_posix_reads", WORD(CUfilePerGpuStats_t, n_posix_reads));
    SAY("n_p2p_writes", WORD(CUfilePerGpuStats_t, n_p2p_writes));
    SAY("n_nvfs_writes", WORD(CUfilePerGpuStats_t, n_nvfs_writes));
    SAY("n_posix_writes", WORD(CUfilePerGpuStats_t, n_posix_writes));
#endif
#if VERSION >= 1160
    SAY("P2PDMA flag", CUFILE_P2PDMA);
    SAY("NVFS flag", CUFILE_NVFS);
    SAY("DMABUF flag", CUFILE_DMABUF);
    SAY("C2C flag", CUFILE_C2C);
    SAY("NVIDIA_PEERMEM flag", CUFILE_NVIDIA_PEERMEM);
    SAY("C2C mask", CU_FILE_P2P_FLAG_C2C);
    SAY("sizeof CUfileP2PFlags_t", sizeof(CUfileP2PFlags_t));
#endif
#if VERSION >= 1170
    SAY("POSIX_IO_MODE bit", CU_FILE_POSIX_IO_MODE);
    SAY("FALLBACK_IO_MODE bit", CU_FILE_FALLBACK_IO_MODE);
#endif
#if VERSION >= 1190
    SAY("POSIX_IO_MODE", CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE);
    SAY("GDS_FALLBACK_IO", CUFILE_PARAM_GDS_FALLBACK_IO);
#endif
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : 0;
    if (!library) {
        fprintf(stderr, "%s\n", count > 1 ? dlerror() : "no library is named");
        return 77;
    }
    CUfileError_t (*version)(int *) = (CUfileError_t (*)(int *))dlsym(library, "cuFileGetVersion");
    CUfileError_t (*set)(int, bool) = (CUfileError_t (*)(int, bool))dlsym(library, "cuFileSetParameterBool");
    int number = 0;
    if (version && version(&number).err == CU_FILE_SUCCESS) SAY("version", number);
    if (set) SAY("answer to POSIX_IO_MODE", set(12, false).err);
    if (set) SAY("answer to GDS_FALLBACK_IO", set(13, false).err);
    SAY("has cuFileGetStatsL3", dlsym(library, "cuFileGetStatsL3") != 0);
    SAY("has cuFileDriverGetP2PFlags", dlsym(library, "cuFileDriverGetP2PFlags") != 0);
    return 0;
}

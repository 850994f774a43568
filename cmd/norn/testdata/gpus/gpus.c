// A machine with two GPUs that are none, for tests of norn selftest. Compiled as a library
// it is both CUDA's driver API and NVML; compiled with -DPROGRAM it is nvidia-smi. What
// processes have allocated stands in files of the folder FAKE_GPUS, one for each
// process and GPU. FAKE_FAULT is what is wrong with the machine. The structs are
// those of NVIDIA's cuda.h and nvml.h.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
static const u64 MiB = 1ull << 20;
static const u64 total = 4096ull << 20;
static const char *uuids[2] = {"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"};

static int fault(const char *name) { const char *f = getenv("FAKE_FAULT"); return f && !strcmp(f, name); }

struct process { int pid, gpu, mps; u64 used; };

// all reads what processes have allocated.
static int all(struct process *p, int room) {
	DIR *d = opendir(getenv("FAKE_GPUS"));
	int n = 0;
	struct dirent *e;
	while (d && n < room && (e = readdir(d))) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s", getenv("FAKE_GPUS"), e->d_name);
		FILE *f = e->d_name[0] == '.' ? 0 : fopen(path, "r");
		if (f && fscanf(f, "%d %d %d %llu", &p[n].pid, &p[n].gpu, &p[n].mps, &p[n].used) == 4 && !kill(p[n].pid, 0)) n++;
		if (f) fclose(f);
	}
	if (d) closedir(d);
	return n;
}

static u64 used(int gpu) {
	struct process p[64];
	u64 sum = 0;
	for (int n = all(p, 64); n-- > 0;) if (p[n].gpu == gpu) sum += p[n].used;
	return sum;
}

#ifdef PROGRAM

static int report(void) {
	struct process p[64];
	int n = all(p, 64);
	printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log><driver_version>580.1</driver_version>");
	for (int g = 0; g < 2; g++) {
		printf("<gpu id=\"00000000:%d8:00.0\"><product_name>NVIDIA %s</product_name><uuid>%s</uuid><minor_number>%d</minor_number>"
			"<mig_mode><current_mig>Disabled</current_mig></mig_mode><fb_memory_usage><total>%llu MiB</total><used>%llu MiB</used></fb_memory_usage>"
			"<utilization><gpu_util>%d %%</gpu_util></utilization><processes>",
			g + 1, fault("product") ? "X200" : "X100", uuids[g], g, total / MiB, used(g) / MiB, used(g) ? 97 : 0);
		for (int i = 0; i < n; i++)
			if (p[i].gpu == g)
				printf("<process_info><pid>%d</pid><type>%s</type><used_memory>%llu MiB</used_memory></process_info>", p[i].pid, p[i].mps ? "M+C" : "C", p[i].used / MiB);
		printf("</processes></gpu>");
	}
	puts("</nvidia_smi_log>");
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 3 && !strcmp(argv[1], "-q") && !strcmp(argv[2], "-x")) return report();
	if (argc != 3 || strcmp(argv[1], "topo")) return 2;
	const char *link = fault("topology") ? "SYS" : "PIX";
	printf("\t\033[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\nGPU0\t X \t%s\t0-1\tN/A\t\tN/A\nGPU1\t%s\t X \t0-1\tN/A\t\tN/A\n", link, link);
	return 0;
}

#else

// CUDA's driver API.

static const u64 context = 64ull << 20; // that a process needs for itself
static int device, count, mps, seen[2];
static u64 mine, limit = ~0ull;

static void note(void) {
	char path[512];
	snprintf(path, sizeof path, "%s/%d-%d", getenv("FAKE_GPUS"), (int)getpid(), device);
	FILE *f = fopen(path, "w");
	fprintf(f, "%d %d %d %llu\n", (int)getpid(), device, mps, mine);
	fclose(f);
}

int cuInit(unsigned flags) {
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *most = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	for (int g = 0; g < 2; g++)
		if (!visible || fault("unpinned") || strstr(visible, uuids[g])) seen[count++] = g;
	mps = getenv("CUDA_MPS_PIPE_DIRECTORY") && !fault("turns");
	if (mps && most && !fault("unlimited")) limit = strtoull(strchr(most, '=') + 1, 0, 10) * MiB;
	return count ? 0 : 100;
}
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorName(int code, const char **name) { *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN"; return 0; }
int cuDeviceGetCount(int *n) { *n = count; return 0; }
int cuDeviceGet(int *d, int i) { *d = seen[i]; return 0; }
int cuDeviceGetUuid(unsigned char *id, int d) { for (int i = 0; i < 16; i++) id[i] = d * 16 + i; return 0; }
int cuDeviceGetAttribute(int *v, int what, int d) {
	const char *part = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	*v = what == 16 ? 100 * (mps && part ? atoi(part) : 100) / 100 : 0;
	return 0;
}
int cuDevicePrimaryCtxRetain(uintptr_t *c, int d) { device = d; mine = context; note(); *c = 1; return 0; }
int cuCtxSetCurrent(uintptr_t c) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *most) { *most = total; *free = total - used(device); return 0; }
int cuMemAlloc_v2(uintptr_t *p, size_t n) {
	if (mine + n > limit || used(device) + n > total || !(*p = (uintptr_t)calloc(n, 1))) return 2;
	mine += n;
	note();
	return 0;
}

// What is filled is remembered and not written: gigabytes of it would take most of a test's time.
static struct { uintptr_t at; uint32_t value; size_t words; } fills[256];
static int filled, rotten;
int cuMemsetD32_v2(uintptr_t p, uint32_t v, size_t n) {
	if (filled == 256) return 2;
	fills[filled].at = p, fills[filled].value = v, fills[filled++].words = n;
	return 0;
}
int cuMemcpyHtoD_v2(uintptr_t d, const void *h, size_t n) { memcpy((void *)d, h, n); return 0; }
int cuMemcpyDtoH_v2(void *h, uintptr_t d, size_t n) {
	for (int i = 0; i < filled; i++) {
		if (d < fills[i].at || d + n > fills[i].at + 4 * fills[i].words) continue;
		for (size_t w = 0; w < n / 4; w++) ((uint32_t *)h)[w] = fills[i].value;
		if (rotten && d == fills[i].at) *(uint32_t *)h = 0;
		return 0;
	}
	memcpy(h, (void *)d, n);
	return 0;
}
int cuModuleLoadData(uintptr_t *m, const void *image) { *m = 1; return strstr(image, ".entry step") ? 0 : 218; }
int cuModuleGetFunction(uintptr_t *f, uintptr_t m, const char *name) { *f = 2; return strcmp(name, "step") ? 500 : 0; }
int cuLaunchKernel(uintptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, uintptr_t stream, void **params, void **extra) {
	uint32_t *v = *(uint32_t **)params[0], words = *(uint32_t *)params[1], rounds = *(uint32_t *)params[2];
	uint32_t a = 1664525, c = 1013904223, all = 1, shift = 0;
	if (f != 2 || gx * bx < words) return 1;
	if (fault("lazy")) return 0;
	rotten = fault("rot"); // memory that is held does not stay as it was
	for (; rounds; rounds >>= 1, c = a * c + c, a *= a)
		if (rounds & 1) all *= a, shift = a * shift + c;
	for (uint32_t i = 0; i < words; i++) v[i] = all * v[i] + shift;
	usleep(1000);
	return 0;
}

// NVML.

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; } nvmlPciInfo_t;
typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } nvmlProcessInfo_t;

int nvmlInit_v2(void) { return fault("mismatch") ? 18 : 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int r) { return "no such thing"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, uintptr_t *h) { *h = i + 1; return i > 1 ? 2 : 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, uintptr_t *h) { *h = pci[5] - '0'; return 0; }
int nvmlDeviceGetName(uintptr_t h, char *s, unsigned n) { snprintf(s, n, "NVIDIA X100"); return 0; }
int nvmlDeviceGetUUID(uintptr_t h, char *s, unsigned n) { snprintf(s, n, "%s", uuids[h - 1]); return 0; }
int nvmlDeviceGetPciInfo_v3(uintptr_t h, nvmlPciInfo_t *p) { memset(p, 0, sizeof *p); snprintf(p->busId, 32, "00000000:%d8:00.0", (int)h); return 0; }
int nvmlDeviceGetMinorNumber(uintptr_t h, unsigned *n) { *n = h - 1; return 0; }
int nvmlDeviceGetMemoryInfo(uintptr_t h, nvmlMemory_t *m) { m->total = total + (fault("total") ? 2 * MiB : 0); m->used = used(h - 1); m->free = total - m->used; return 0; }
int nvmlDeviceGetMemoryInfo_v2(uintptr_t h, nvmlMemory_v2_t *m) { m->total = total; m->reserved = 0; m->used = used(h - 1) * (fault("twice") ? 2 : 1); m->free = 0; return 0; }
int nvmlDeviceGetUtilizationRates(uintptr_t h, nvmlUtilization_t *u) { u->gpu = used(h - 1) ? 97 : 0; u->memory = 0; return 0; }
int nvmlDeviceGetMigMode(uintptr_t h, unsigned *now, unsigned *pending) { *now = *pending = fault("mig"); return 0; }
static int list(uintptr_t h, unsigned *n, nvmlProcessInfo_t *out, int mps) {
	struct process p[64];
	unsigned k = 0;
	for (int i = fault("blind") ? 0 : all(p, 64); i-- > 0 && k < *n;)
		if (p[i].gpu == (int)h - 1 && p[i].mps == mps) out[k++] = (nvmlProcessInfo_t){p[i].pid, p[i].used, ~0u, ~0u};
	*n = k;
	return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(uintptr_t h, unsigned *n, nvmlProcessInfo_t *out) { return list(h, n, out, 0); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(uintptr_t h, unsigned *n, nvmlProcessInfo_t *out) { return list(h, n, out, 1); }
int nvmlDeviceGetTopologyCommonAncestor(uintptr_t a, uintptr_t b, int *level) { *level = 10; return 0; }

#endif

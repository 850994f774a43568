// A library that looks like NVML to whoever loads it: two GPUs that the test
// changes through fake_set. The structs are those of NVIDIA's nvml.h.
#include <stdio.h>
#include <string.h>

typedef int nvmlReturn_t;
typedef struct device *nvmlDevice_t;
typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef union { double d; unsigned int ui; unsigned long long ull; } nvmlValue_t;
typedef struct { unsigned int fieldId, scopeId; long long timestamp, latencyUsec; int valueType; nvmlReturn_t nvmlReturn; nvmlValue_t value; } nvmlFieldValue_t;

struct device { int index; };
static struct device devices[2] = {{0}, {1}};
static const unsigned long long GiB = 1ull << 30;

static int initialised, lost = -1, refuse, processes = 1;
static unsigned long long ecc;

void fake_set(int what, long long value) {
	switch (what) {
	case 0: lost = (int)value; break;      // index of the GPU that is lost
	case 1: refuse = (int)value; break;    // code of nvmlInit
	case 2: ecc = (unsigned long long)value; break;
	case 3: processes = (int)value; break; // on each GPU
	}
}

static nvmlReturn_t check(nvmlDevice_t d) {
	if (!initialised) return 1;
	if (d != &devices[0] && d != &devices[1]) return 2;
	return d->index == lost ? 15 : 0;
}
#define CHECK(d) do { nvmlReturn_t r = check(d); if (r) return r; } while (0)

nvmlReturn_t nvmlInit_v2(void) { if (!refuse) initialised = 1; return refuse; }
nvmlReturn_t nvmlShutdown(void) { initialised = 0; return 0; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == 15 ? "GPU is lost" : r == 18 ? "Driver/library version mismatch" : "Unknown Error"; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return initialised ? 0 : 1; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) { if (i > 1) return 2; *d = &devices[i]; return check(*d); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvmlDevice_t *d) {
	if (!strcmp(pci, "0000:18:00.0")) *d = &devices[0];
	else if (!strcmp(pci, "0000:3b:00.0")) *d = &devices[1];
	else return 6;
	return check(*d);
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *s, unsigned int n) { CHECK(d); snprintf(s, n, "NVIDIA H200"); return 0; }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *s, unsigned int n) { CHECK(d); snprintf(s, n, "GPU-0000-%d", d->index); return 0; }
static void address(nvmlPciInfo_t *p, int index) {
	memset(p, 0, sizeof *p);
	snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "0000:%s:00.0", index ? "3B" : "18");
	p->bus = index ? 0x3b : 0x18;
	snprintf(p->busId, sizeof p->busId, "00000000:%s:00.0", index ? "3B" : "18");
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) { CHECK(d); address(p, d->index); return 0; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *n) { CHECK(d); *n = 4 + d->index; return 0; }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) { CHECK(d); m->total = 141 * GiB; m->used = 10 * GiB; m->free = 131 * GiB; return 0; }
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m) {
	CHECK(d);
	if (m->version != (sizeof *m | 2 << 24)) return 25;
	m->total = 141 * GiB; m->reserved = GiB; m->used = 9 * GiB; m->free = 131 * GiB;
	return 0;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) { CHECK(d); u->gpu = 37; u->memory = 5; return 0; }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned int *t) { CHECK(d); *t = sensor == 0 ? 41 : 999; return 0; }
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, int kind, unsigned int *t) { CHECK(d); *t = kind == 1 ? 92 : 999; return 0; }
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *mw) { CHECK(d); *mw = 123456; return d->index ? 3 : 0; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int kind, int counter, unsigned long long *n) { CHECK(d); if (kind != 1 || counter != 0) return 2; *n = ecc; return 0; }
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now, unsigned int *pending) { CHECK(d); *now = d->index; *pending = 0; return 0; }
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	CHECK(d);
	unsigned int room = *n;
	*n = processes;
	if (room < (unsigned)processes) return 7;
	for (int i = 0; i < processes; i++) {
		p[i].pid = 5000 - i;
		p[i].usedGpuMemory = i ? ~0ull : 2 * GiB;
		p[i].gpuInstanceId = p[i].computeInstanceId = ~0u;
	}
	return 0;
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	CHECK(d);
	if (*n < 2) return 7;
	*n = 2;
	for (int i = 0; i < 2; i++) { /* one of its own, and one that is in the other list, too */
		p[i].pid = 5000 + i;
		p[i].usedGpuMemory = GiB;
		p[i].gpuInstanceId = p[i].computeInstanceId = ~0u;
	}
	return 0;
}
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *level) { CHECK(a); CHECK(b); *level = 50; return 0; }
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int kind, int *status) { CHECK(a); CHECK(b); *status = kind == 2 ? 0 : 6; return 0; }
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int i, int *on) { CHECK(d); if (i >= 18) return 2; *on = i != 3; return 0; }
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int i, nvmlPciInfo_t *p) {
	CHECK(d);
	if (i >= 4) return 3;
	address(p, !d->index);
	return 0;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int i, int *kind) { CHECK(d); *kind = i < 4 ? 0 : 2; return 0; }
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
	CHECK(d);
	for (int i = 0; i < n; i++) {
		v[i].valueType = 1;
		v[i].nvmlReturn = v[i].fieldId == 90 ? 0 : 3;
		v[i].value.ui = 26562;
	}
	return 0;
}

package rmixer

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
)

// device is a GPU or host device, and what runs there. The last part is made anew
// at each decision, from what jobs hold.
type device struct {
	id      cluster.DeviceID
	node    cluster.NodeID
	typ     cluster.TypeID
	host    bool
	workers int
	share   int32      // of the device that a worker has, in thousandths
	total   unit.Bytes // memory; 0: not told
	idle    unit.Bytes // of its workers when they run nothing

	jobs        []job.ID
	sum         unit.Bytes // booked for its jobs
	use         int64      // of its jobs, in thousandths of a percent
	class       [classes]int
	front, back int  // jobs taken from either end of the list
	gang        bool // one has the device for itself
}

// booked is the memory that is booked: no less than idle workers take.
func (d *device) booked() unit.Bytes { return max(d.sum, d.idle) }

// room is what a job can need at most to fit beside the others.
func (d *device) room() unit.Bytes {
	if d.total == 0 || len(d.jobs) == 0 { // or all that the device has, see take
		return none
	}
	return d.total - d.booked() - 1
}

// whole is what is booked for a job that gets all memory of a device.
func (d *device) whole() unit.Bytes { return max(0, d.total-d.idle-1) }

// take is the memory that is booked when a job runs on the device. One that needs
// more than the device has can only run alone there, with all of it; one of which
// nothing is known gets the part of a worker.
func (d *device) take(need unit.Bytes, whole bool) (booked unit.Bytes, ok bool) {
	switch {
	case d.total == 0:
		return need, true
	case need == 0:
		need = (d.total - d.idle) / unit.Bytes(d.workers)
	}
	if need+d.booked() < d.total {
		return need, true
	}
	return d.whole(), whole && len(d.jobs) == 0 && d.whole() > 0
}

// most is the class of which most jobs run on the device: of equal ones the
// compute-intensive, then the memory-intensive.
func (d *device) most() int8 {
	best := int8(1)
	for _, c := range []int8{0, -1} {
		if d.class[c+1] > d.class[best+1] {
			best = c
		}
	}
	return best
}

// gets notes a job that runs on the device.
func (d *device) gets(id job.ID, s standing, booked unit.Bytes) {
	d.jobs = append(d.jobs, id)
	d.sum += booked
	d.use += int64(s.use)
	d.class[s.class+1]++
	if s.front {
		d.front++
	} else {
		d.back++
	}
}

// order is the place of a device among those that may take a job, least first.
func (d *device) order(by DevicePolicy) int64 {
	switch by {
	case MostFree:
		if d.total == 0 {
			return int64(d.booked()) - int64(none)
		}
		return int64(d.booked() - d.total)
	case FewestJobs:
		return int64(len(d.jobs))
	case LeastUse:
		return d.use
	case InOrder:
		return 0
	}
	return int64(d.booked())
}

// devices are those of a pool that may be used, GPUs and host devices apart, each in
// the order of their numbers.
type devices struct {
	all     []device
	at      []int32 // device -> place in all + 1
	version uint64
	made    bool
	workers [2]int // of GPUs and of host devices
	running int    // single jobs

	waiting dense.Heap // scratch: devices that may take a job, by their order
}

// load makes the devices, anew when nodes have changed, and what runs on them.
func (ds *devices) load(v *sched.View, cfg *Config) {
	c := v.Cluster()
	if !ds.made || ds.version != c.Version() {
		ds.make(v, cfg)
	}
	for i := range ds.all {
		d := &ds.all[i]
		d.jobs, d.sum, d.use, d.class, d.front, d.back, d.gang = d.jobs[:0], 0, 0, [classes]int{}, 0, 0, false
	}
	ds.running = 0
	for j := range v.Running() {
		a := v.Alloc(j.ID)
		if !single(j.Spec()) || len(a.Shares) != 1 {
			ds.reserve(a)
			continue
		}
		ds.running++
		if d := ds.of(a.Shares[0].Device); d != nil {
			d.gets(j.ID, recall(j), a.Shares[0].Memory)
		}
	}
}

// reserve keeps the devices of a gang for it.
func (ds *devices) reserve(a *cluster.Alloc) {
	for i := range a.Shares {
		if d := ds.of(a.Shares[i].Device); d != nil {
			d.gang = true
		}
	}
}

// clear tells whether nothing runs on any of the devices of an Alloc.
func (ds *devices) clear(a *cluster.Alloc) bool {
	for i := range a.Shares {
		if d := ds.of(a.Shares[i].Device); d != nil && (d.gang || len(d.jobs) > 0) {
			return false
		}
	}
	return true
}

// of is a device by its number, nil when it may not be used.
func (ds *devices) of(id cluster.DeviceID) *device {
	if int(id) >= len(ds.at) || ds.at[id] == 0 {
		return nil
	}
	return &ds.all[ds.at[id]-1]
}

func (ds *devices) make(v *sched.View, cfg *Config) {
	c := v.Cluster()
	ds.made, ds.version, ds.all, ds.workers = true, c.Version(), ds.all[:0], [2]int{}
	ds.at = make([]int32, c.Devices())
	for n := range cluster.NodeID(c.Nodes()) {
		if !c.Usable(n) || !v.All && c.Node(n).Pool != v.Pool {
			continue
		}
		first, many := c.DeviceRange(n)
		for id := first; id < first+cluster.DeviceID(many); id++ {
			if !c.Broken(id) {
				ds.add(c, id, cfg)
			}
		}
	}
	for i := range ds.all {
		ds.at[ds.all[i].id] = int32(i + 1)
	}
}

// add makes one device. Counted devices of a node are one to the ledger, and so
// here: their workers and memory are counted together.
func (ds *devices) add(c *cluster.Cluster, id cluster.DeviceID, cfg *Config) {
	typ := c.TypeOf(id)
	t := c.Type(typ)
	workers, side := cfg.GPUWorkers, 0
	if t.Host {
		workers, side = cfg.CPUWorkers, 1
	}
	if workers == 0 {
		return
	}
	node, count := c.NodeOf(id), 1
	if spec := c.Node(node); spec.Pooled {
		for _, g := range spec.GPUs {
			if g.Type == typ {
				count = g.Count
			}
		}
	}
	d := device{
		id: id, node: node, typ: typ, host: t.Host, workers: workers * count, share: int32(1000 / workers),
		total: t.Memory * unit.Bytes(count),
	}
	if !t.Host {
		d.idle = unit.Bytes(cfg.Idle) * unit.MiB * unit.Bytes(d.workers)
	}
	ds.workers[side] += d.workers
	ds.all = append(ds.all, d)
}

// largest is the most memory of a device that a job may use; 0 when one does not
// tell.
func (ds *devices) largest(m cluster.TypeMask, gpu, host bool) unit.Bytes {
	most := unit.Bytes(0)
	for i := range ds.all {
		d := &ds.all[i]
		if d.host && host || !d.host && gpu && m.Has(d.typ) {
			if d.total == 0 {
				return 0
			}
			most = max(most, d.total)
		}
	}
	return most
}

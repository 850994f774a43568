package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/state/dense"
)

// Plan is what should hold from now on, as a transaction over the ledger.
// Everything planned is booked at once, so View.Cluster shows what is left, but
// nothing is real until the policy returns. A plan may stop a job and start it
// again; only the final allocation counts. A job that ends up on its old
// devices is left alone, one on others is moved, and one without devices is
// preempted.
//
// The plan refuses at once what is impossible. For a gang that does not fit it
// answers false and keeps a reason. A call that makes no sense, such as
// starting a running job, makes the whole plan invalid, with an error that
// names the job.
type Plan struct {
	view   *View
	state  *state.State
	ops    []Op
	opOf   []int32 // job -> place in ops + 1
	waits  []Wait
	notes  []Remembered
	fields Fields // scratch of Remember
	merges []Merge
	undo   []undoOp
	depth  int
	mark   int
	frozen int  // number of jobs that it freezes, including those that it starts again
	homed  bool // a frozen job is started at its pinned place although the policy named other devices
	allocs []*cluster.Alloc
	used   int
	req    place.Request
	ends   []ending // scratch of Expect
	why    job.Reason
	err    error
	noted  dense.Set // scratch of lastNotes
	seats  seats
	turns  int32 // how often it has brought a job to devices

	empty   place.Request // to the empty cluster
	version uint64        // of the cluster from which empty was made
	answers map[emptyKey]job.Reason
	last    []emptyAnswer // by class, the answer that was last given
}

// Op is the plan for one job.
type Op struct {
	Job job.ID
	Was *cluster.Alloc // what it had before; nil: nothing
	Now *cluster.Alloc // what it shall have; nil: nothing
	Why job.Reason     // of its stop

	Profile bool // it is started only to be measured

	turn int32 // when the plan brought the job to Now, counting from 1; 0: it stays where it is
}

// Wait is a waiting job and why it waits.
type Wait struct {
	Job job.ID
	Why job.Reason
}

// Merge is how a job is to be trained from now on.
type Merge struct {
	Job, With job.ID
	How       job.Merge
}

// Remembered is what a policy wants to remember about a job from now on. A nil
// note takes away the old one.
type Remembered struct {
	Job  job.ID
	Note *job.Note
}

type undoOp struct {
	at  int
	was Op
}

// Open begins a plan for a view. It is meant for the engine and for tests;
// every Open needs a Commit or a Discard.
func (p *Plan) Open(v *View) {
	p.view, p.state = v, v.state
	for i := range p.ops {
		p.opOf[p.ops[i].Job] = 0
	}
	p.merges = p.merges[:0]
	p.ops, p.waits, p.notes, p.undo, p.depth, p.used, p.err = p.ops[:0], p.waits[:0], p.notes[:0], p.undo[:0], 0, 0, nil
	for len(p.opOf) < p.state.Jobs() {
		p.opOf = append(p.opOf, make([]int32, max(1024, len(p.opOf), p.state.Jobs()-len(p.opOf)))...)
	}
	p.frozen, p.homed, p.why, p.turns = 0, false, job.Reason{}, 0
	p.seats.reset()
	p.req.Cluster, p.req.Rand = p.state.Cluster, v.Rand
	p.mark = p.state.Cluster.Mark()
}

// Commit ends the plan and leaves the ledger as planned. If the plan is
// invalid, Commit restores the ledger and returns the error.
func (p *Plan) Commit() error {
	if p.err != nil {
		p.Discard()
		return p.err
	}
	p.state.Cluster.Keep(p.mark)
	p.lastNotes()
	return nil
}

// lastNotes keeps the last note for each job.
func (p *Plan) lastNotes() {
	if len(p.waits) < 2 {
		return
	}
	keep := len(p.waits)
	for i := len(p.waits) - 1; i >= 0; i-- {
		if h := p.waits[i]; p.noted.Add(int(h.Job)) {
			keep--
			p.waits[keep] = h
		}
	}
	for _, h := range p.waits[keep:] {
		p.noted.Remove(int(h.Job))
	}
	p.waits = append(p.waits[:0], p.waits[keep:]...)
}

// Discard ends the plan and restores the ledger.
func (p *Plan) Discard() {
	for ; p.depth > 0; p.depth-- { // calls of Try that a panic of the policy has left open
		p.state.Cluster.Keep(p.mark)
	}
	p.state.Cluster.Undo(p.mark)
	p.waits, p.notes, p.merges = p.waits[:0], p.notes[:0], p.merges[:0]
}

// Ops is the plan so far, in the order in which jobs were first mentioned.
func (p *Plan) Ops() []Op { return p.ops }

// Waits are the reasons given to waiting jobs, the last one of each.
func (p *Plan) Waits() []Wait { return p.waits }

// Merges are the changes of how jobs are trained.
func (p *Plan) Merges() []Merge { return p.merges }

// Notes are what is to be remembered about jobs.
func (p *Plan) Notes() []Remembered { return p.notes }

// Start starts a waiting job at the size it asks for, on devices that the
// strategy chooses. When it does not fit, the result is false, and the plan
// notes the reason for which the job waits.
func (p *Plan) Start(id job.ID, where place.Strategy) bool {
	if !p.known(id, "start") {
		return false
	}
	tasks := p.state.Record(id).Job.Demand.Roles[0].Tasks
	return p.StartSize(id, int(tasks), where)
}

// StartSize starts a waiting job with the given number of tasks of its first
// role.
func (p *Plan) StartSize(id job.ID, tasks int, where place.Strategy) bool {
	op := p.startable(id)
	if op == nil || !p.sized(id, "start it", tasks) {
		return false
	}
	why, ok := p.find(id, tasks, where)
	if !ok {
		p.why = why
		p.Wait(id, why)
		return false
	}
	return p.take(op, &p.req.Out)
}

// Why is the reason for which the last Start or StartSize was refused.
func (p *Plan) Why() job.Reason { return p.why }

// StartOn starts a waiting job on the given devices, which are copied. It
// makes the plan invalid when they are not free or not enough for the whole gang.
// When a node has too little of a counted resource that the job needs, the result is
// false, so that policies which look at devices alone need not know of these.
//
// A frozen job can go on only where its memory is. So it starts there, whatever
// the given devices, or the result is false. From then on the plan refuses a
// job whose devices are not free, and does not become invalid.
//
// A job that may not use the nodes of the devices is refused, too (View.Admits).
func (p *Plan) StartOn(id job.ID, a *cluster.Alloc) bool {
	op := p.startable(id)
	if op == nil {
		return false
	}
	if pinned := p.state.PinnedPlace(id); pinned != nil && !pinned.SamePlaces(a) {
		if p.why, _ = p.findPinned(pinned); p.why.Code != job.NoReason {
			p.Wait(id, p.why)
			return false
		}
		p.homed = true
		return p.take(op, &p.req.Out)
	}
	return p.admitted(op, a) && p.take(op, a)
}

// staysOn tells whether an Alloc is on none but the nodes of another one.
func staysOn(a, was *cluster.Alloc) bool {
	return !slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool {
		return !slices.ContainsFunc(was.Pieces, func(q cluster.Piece) bool { return p.Node == q.Node })
	})
}

// admitted tells whether a job may have what the policy names. The plan refuses a
// job that asks for other nodes (View.Admits), and does not become invalid. On the
// nodes on which it runs a job stays, whatever has become of their labels.
func (p *Plan) admitted(op *Op, a *cluster.Alloc) bool {
	r := p.state.Record(op.Job)
	class := p.state.Class(r.Class)
	if class.Admits(p.state.Cluster, a) || op.Was != nil && staysOn(a, op.Was) {
		return true
	}
	p.why = p.needWhere(r)
	p.Wait(op.Job, p.why)
	return false
}

// needWhere is why a job waits that may not use the nodes that were chosen.
func (p *Plan) needWhere(r *job.Record) job.Reason {
	need, free := r.Job.Demand.GPUs(), p.state.Cluster.FreeGPUs(p.state.Class(r.Class).Scope, r.Mask)
	return job.Reason{Code: job.NeedWhere, Need: int32(need), Have: int32(free), Job: job.None, Text: r.Job.Demand.Where}
}

// Profile allocates the given devices, which are copied, to a waiting job that
// is to be measured there. The job makes no progress until it is stopped.
func (p *Plan) Profile(id job.ID, a *cluster.Alloc) bool {
	op := p.startable(id)
	if op == nil || !p.admitted(op, a) || !p.take(op, a) {
		return false
	}
	op.Profile = true
	return true
}

// Merge plans that a job is trained with another job of the same backbone. It
// is trained after that job, going on from what that has learnt, or together
// with it. A merge of two jobs that are trained together is noted on both. The
// merge counts from this plan on; the job need not run yet.
// A merge of two jobs that must not learn from each other (job.MayMerge) makes
// the plan invalid.
func (p *Plan) Merge(id, with job.ID, how job.Merge) bool {
	if !p.known(id, "merge") || !p.known(with, "merge") {
		return false
	}
	a, b := p.state.Record(id), p.state.Record(with)
	switch {
	case how == job.Apart:
		return p.fail(id, "merge it", "is merged neither together with nor after another")
	case id == with:
		return p.fail(id, "merge it", "cannot be merged with itself")
	case a.Job.Backbone == "" || a.Job.Backbone != b.Job.Backbone:
		return p.fail(id, "merge it", "has another backbone than job "+b.Job.Key)
	case !job.MayMerge(a.Job, b.Job):
		return p.fail(id, "merge it", "belongs to another user than job "+b.Job.Key+", and not both consent")
	case a.Phase.Over() || how == job.Together && b.Phase.Over():
		return p.fail(id, "merge it", "or the other job has ended")
	}
	p.merges = append(p.merges, Merge{id, with, how})
	if how == job.Together {
		p.merges = append(p.merges, Merge{with, id, how})
	}
	return true
}

// Split plans that a job is trained by itself again. If it was trained together
// with another job, so is that one. A job that went on from what another had
// learnt loses its work.
func (p *Plan) Split(id job.ID) bool {
	if !p.known(id, "split") {
		return false
	}
	r := p.state.Record(id)
	if r.Merged == job.Apart {
		return p.fail(id, "split it", "is not merged")
	}
	p.merges = append(p.merges, Merge{id, job.None, job.Apart})
	if r.Merged == job.Together && p.state.Known(r.With) && !p.state.Record(r.With).Phase.Over() {
		p.merges = append(p.merges, Merge{r.With, job.None, job.Apart})
	}
	return true
}

// Fits tells whether a waiting job could be started now, and why not.
func (p *Plan) Fits(id job.ID, where place.Strategy) (job.Reason, bool) {
	if !p.known(id, "place") {
		return job.Reason{}, false
	}
	return p.find(id, int(p.state.Record(id).Job.Demand.Roles[0].Tasks), where)
}

// Stop takes a job off its devices.
func (p *Plan) Stop(id job.ID, why job.Reason) bool {
	if !p.known(id, "stop") {
		return false
	}
	op := p.op(id)
	if op.Now == nil {
		return p.fail(id, "stop it", "holds nothing")
	}
	if r := p.state.Record(id); op.Was != nil && r.Job.Stop == job.Pinned {
		return p.fail(id, "stop it", "must never be stopped")
	}
	p.remember(op)
	p.state.Cluster.Release(op.Now)
	p.departs(id, op.Now)
	op.Now, op.Why = nil, why
	if op.Was != nil && p.state.Record(id).Job.Stop == job.Freeze {
		p.frozen++
	}
	return true
}

// Move takes a job to the devices that the strategy chooses. If the strategy
// chooses the same devices, or finds none, the job stays and the result is
// false.
func (p *Plan) Move(id job.ID, where place.Strategy) bool {
	if !p.known(id, "move") {
		return false
	}
	alloc := p.Alloc(id)
	if alloc == nil {
		return p.fail(id, "move it", "holds nothing")
	}
	return p.Resize(id, alloc.Tasks(0), where)
}

// Resize changes the number of tasks of the first role of a running job. When
// the new size does not fit, the job stays as it is and the result is false.
func (p *Plan) Resize(id job.ID, tasks int, where place.Strategy) bool {
	changed := false
	p.Try(func() bool {
		if !p.known(id, "resize") {
			return false
		}
		op := p.op(id)
		if op.Now == nil {
			return p.fail(id, "resize it", "holds nothing")
		}
		if !p.sized(id, "resize it", tasks) {
			return false
		}
		was := op.Now
		p.remember(op)
		p.state.Cluster.Release(was)
		p.departs(id, was)
		op.Now, op.Why = nil, job.Reason{Code: job.Moved, Job: job.None}
		if tasks != was.Tasks(0) {
			op.Why = job.Reason{Code: job.Resized, Need: int32(tasks), Job: job.None}
		}
		_, ok := p.find(id, tasks, where)
		keepBeat(&p.req.Out, was)
		if !ok || p.req.Out.Tasks(0) != tasks || p.req.Out.Equal(was) {
			return false // a job that is frozen goes on with as many tasks as it had
		}
		changed = p.take(p.op(id), &p.req.Out)
		return changed
	})
	return changed
}

// Adjust changes how much a running job holds of the devices and nodes that it
// is on. The job stays there and goes on without a pause. The function may
// alter Milli, Memory, Throttle and Batch of the shares, CPU and Memory of
// the pieces, and Beat. The job keeps what it has, and the result is false, when the new
// amounts do not fit. The same holds for a job that is leaving, has not begun,
// or is only measured. Leaving a device makes the plan invalid.
func (p *Plan) Adjust(id job.ID, change func(a *cluster.Alloc)) bool {
	if !p.known(id, "adjust") {
		return false
	}
	op := p.op(id)
	if op.Now == nil {
		return p.fail(id, "adjust it", "holds nothing")
	}
	if r := p.state.Record(id); op.Was != nil && (r.Phase != job.Running || r.Profiling) {
		return false
	}
	now := p.newAlloc()
	now.CopyFrom(op.Now)
	change(now)
	switch {
	case !now.SamePlaces(op.Now):
		return p.fail(id, "adjust it", "would leave its devices")
	case now.Equal(op.Now):
		p.used-- // the next one may have it
		return true
	}
	c := p.state.Cluster
	c.Release(op.Now)
	if c.Reallocate(now) != nil {
		if err := c.Reallocate(op.Now); err != nil { // it was there a moment ago
			p.Invalidate(err)
		}
		return false
	}
	p.remember(op)
	op.Now = now
	return true
}

// Wait notes why a job waits. Of several reasons for one job the last counts.
func (p *Plan) Wait(id job.ID, why job.Reason) {
	if p.known(id, "hold") {
		p.waits = append(p.waits, Wait{id, why})
	}
}

// Remember notes something about a job that the policy will want to know again,
// even after a restart; Recall reads it. It replaces any note that the job has.
// It makes the plan invalid when a number of the note is not finite.
func (p *Plan) Remember(id job.ID, n Note) {
	if !p.known(id, "remember") {
		return
	}
	text, err := p.fields.encode(n)
	if err != nil {
		p.fail(id, "remember", "cannot be noted: "+err.Error())
		return
	}
	note := p.state.Record(id).Note
	if !note.Says(n.Kind(), text) {
		note = job.NewNote(n.Kind(), text)
	}
	p.notes = append(p.notes, Remembered{id, note})
}

// Forget takes away the note that a job has.
func (p *Plan) Forget(id job.ID) {
	if p.known(id, "forget") {
		p.notes = append(p.notes, Remembered{id, nil})
	}
}

// Noted is what the policy will remember about a job as the plan stands. It is
// like Recall, but sees what this plan has noted already.
func Noted[N any, P interface {
	*N
	Note
}](p *Plan, j Job) (n N, ok bool) {
	for i := len(p.notes) - 1; i >= 0; i-- {
		if p.notes[i].Job == j.ID {
			return NoteOf[N, P](p.notes[i].Note)
		}
	}
	return Recall[N, P](j)
}

// Try runs f and takes back everything that f planned if f returns false. It
// returns what f returned. Calls of Try may nest.
//
// The plan is then as it was before, Why included; only an error that made it invalid stays.
func (p *Plan) Try(f func() bool) bool {
	was := p.savepoint()
	p.depth++
	ok := f()
	p.depth--
	if ok && p.err == nil {
		p.state.Cluster.Keep(was.mark)
		return true
	}
	p.rollBack(&was)
	return false
}

// savepoint is how far a plan has come.
type savepoint struct {
	mark                            int // of the ledger
	ops, undo, waits, notes, merges int // lengths
	used, frozen                    int
	homed                           bool
	why                             job.Reason
}

func (p *Plan) savepoint() savepoint {
	return savepoint{
		mark: p.state.Cluster.Mark(),
		ops:  len(p.ops), undo: len(p.undo), waits: len(p.waits), notes: len(p.notes), merges: len(p.merges),
		used: p.used, frozen: p.frozen, homed: p.homed, why: p.why,
	}
}

// rollBack takes back all that was planned since a savepoint.
func (p *Plan) rollBack(to *savepoint) {
	p.state.Cluster.Undo(to.mark)
	for i := len(p.undo) - 1; i >= to.undo; i-- {
		op := &p.ops[p.undo[i].at]
		p.departs(op.Job, op.Now)
		*op = p.undo[i].was
		p.arrives(op.Job, op.Now)
	}
	for _, op := range p.ops[to.ops:] {
		p.opOf[op.Job] = 0
	}
	p.ops, p.undo, p.waits, p.notes, p.merges = p.ops[:to.ops], p.undo[:to.undo], p.waits[:to.waits], p.notes[:to.notes], p.merges[:to.merges]
	p.used, p.frozen, p.homed, p.why = to.used, to.frozen, to.homed, to.why
}

// Alloc is what a job will have as the plan stands, or nil.
func (p *Plan) Alloc(id job.ID) *cluster.Alloc {
	if !p.state.Known(id) {
		return nil
	}
	if i := p.opOf[id]; i != 0 {
		return p.ops[i-1].Now
	}
	return p.state.Alloc(id)
}

// Fresh tells whether the allocation of any job changes at this moment, by this
// plan or by one that was just carried out. The speed of such a job, and
// whether others may join it, is known only later.
func (p *Plan) Fresh() bool {
	for _, op := range p.ops {
		if op.Now != nil && (op.Was == nil || !op.Now.Equal(op.Was)) {
			return true
		}
	}
	for j := range p.view.Running() {
		if j.Since() == p.view.Now {
			return true
		}
	}
	return false
}

// Invalidate makes the plan fail with an error of the policy's own.
func (p *Plan) Invalidate(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Locate runs f, and has an error that makes the plan invalid meanwhile begin with where:
// the place at which somebody has written down what f plans.
func (p *Plan) Locate(where string, f func()) {
	valid := p.err == nil
	if f(); valid && p.err != nil {
		p.err = fmt.Errorf("%s: %w", where, p.err)
	}
}

// Err is the error that made the plan invalid, or nil.
func (p *Plan) Err() error { return p.err }

// op is the plan for a job, made when there is none yet.
func (p *Plan) op(id job.ID) *Op {
	if i := p.opOf[id]; i != 0 {
		return &p.ops[i-1]
	}
	was := p.state.Alloc(id)
	p.ops = append(p.ops, Op{Job: id, Was: was, Now: was})
	p.opOf[id] = int32(len(p.ops))
	return &p.ops[len(p.ops)-1]
}

func (p *Plan) startable(id job.ID) *Op {
	if !p.known(id, "start") {
		return nil
	}
	op := p.op(id)
	switch phase := p.state.Record(id).Phase; {
	case op.Now != nil:
		p.fail(id, "start it", "holds devices already")
		return nil
	case phase != job.Waiting && op.Was == nil:
		p.fail(id, "start it", "is "+phase.String())
		return nil
	}
	return op
}

// roomBeside tells whether the devices in p.req.Out have memory enough for the
// job beside the frozen jobs that keep theirs there. Demands that are unknown
// count as none.
func (p *Plan) roomBeside(d *job.Demand) bool {
	c := p.state.Cluster
	shares := p.req.Out.Shares
	for i := range p.req.Out.Pieces {
		piece := &p.req.Out.Pieces[i]
		for _, share := range shares[:piece.Shares] {
			all := c.Type(c.TypeOf(share.Device)).Memory
			if all > 0 && p.keptOn(share.Device)+d.Roles[piece.Role].GPUMemory > all {
				return false
			}
		}
		shares = shares[piece.Shares:]
	}
	return true
}

// keptOn is the memory of a device that frozen jobs keep, including those that
// this plan freezes.
func (p *Plan) keptOn(d cluster.DeviceID) unit.Bytes {
	sum := p.state.Frozen(d)
	for i := 0; p.frozen > 0 && i < len(p.ops); i++ {
		op := &p.ops[i]
		if j := p.state.Record(op.Job).Job; op.Was != nil && op.Now == nil && j.Stop == job.Freeze {
			sum += state.Keeps(j, op.Was, d)
		}
	}
	return sum
}

// findPinned is find for a frozen job. Such a job can go on only where its memory
// is, at the size that it had.
func (p *Plan) findPinned(pinned *cluster.Alloc) (job.Reason, bool) {
	c := p.state.Cluster
	usable := true
	for i := range pinned.Pieces {
		usable = usable && c.Health(pinned.Pieces[i].Node) == cluster.Up && c.Power(pinned.Pieces[i].Node) == cluster.Awake
	}
	for i := range pinned.Shares {
		usable = usable && !c.Broken(pinned.Shares[i].Device)
	}
	mark := c.Mark()
	usable = usable && c.Allocate(pinned) == nil
	c.Undo(mark)
	if !usable {
		return job.Reason{Code: job.Occupied, Job: job.None}, false
	}
	p.req.Out.CopyFrom(pinned)
	return job.Reason{}, true
}

// find asks the strategy for devices; the answer is in p.req.Out.
func (p *Plan) find(id job.ID, tasks int, where place.Strategy) (job.Reason, bool) {
	r := p.state.Record(id)
	if pinned := p.state.PinnedPlace(id); pinned != nil {
		return p.findPinned(pinned)
	}
	p.request(&p.req, r, tasks)
	class := p.state.Class(r.Class)
	if class.NoType {
		return noType(class), false
	}
	if !p.moves(&p.req, r.Job) {
		return job.Reason{Code: job.Because, Job: job.None, Text: "with " + unit.Count(tasks, "task") + " it is believed to run at speed 0 on every GPU that it could have"}, false
	}
	why, ok := place.Gang(&p.req, where)
	if ok && class.Restricted() && !class.Admits(p.state.Cluster, &p.req.Out) {
		if was := p.state.Alloc(id); was == nil || !staysOn(&p.req.Out, was) {
			return p.needWhere(r), false
		}
	}
	if ok && p.state.PinnedPlaces()+p.frozen > 0 && !p.roomBeside(r.Job.Demand) {
		return job.Reason{Code: job.Occupied, Job: job.None, Text: "frozen jobs keep the memory of the GPUs that are free"}, false
	}
	if !ok {
		if never := p.never(r, tasks, where); never.Code != job.NoReason {
			why = never
		} else if class.Scope != r.Pool && why.Code == job.NeedGPUs && p.state.Cluster.FreeGPUs(r.Pool, r.Mask) >= int(why.Need) {
			why.Code, why.Text = job.NeedWhere, class.Demand.Where
		}
	}
	return why, ok
}

// moves leaves out of a request the GPU types on which an elastic job is believed to stand still with
// so many tasks. It is false if none is left. Types on which a job does so with any number of tasks are
// not among its own (state.Class).
func (p *Plan) moves(req *place.Request, j *job.Job) bool {
	d, c := j.Demand, p.state.Cluster
	if p.view.Speeds == nil || !d.Elastic() || d.Roles[0].GPU == 0 {
		return true
	}
	var moves cluster.TypeMask
	all := true
	d.EachType(c, func(t cluster.TypeID) bool {
		if !req.Mask.Has(t) {
			return true
		}
		on := func(spread bool) bool { return p.view.Speeds.On(j, c, t, int(req.Tasks), spread) > 0 }
		if on(false) || on(true) {
			moves |= 1 << t
		} else {
			all = false
		}
		return true
	})
	if !all {
		req.Mask = moves
	}
	return all || moves != 0
}

func (p *Plan) request(req *place.Request, r *job.Record, tasks int) {
	class := p.state.Class(r.Class)
	req.Demand, req.Tasks, req.Pool, req.Mask, req.Slots = class.Demand, int32(tasks), class.Scope, r.Mask, class.Slots
}

// Never is the reason for which a job can never run on this cluster, even if
// nothing else ran and every node worked. Its code is NoReason when the job can
// run.
func (p *Plan) Never(id job.ID, where place.Strategy) job.Reason {
	if !p.known(id, "place") {
		return job.Reason{}
	}
	r := p.state.Record(id)
	return p.never(r, int(r.Job.Demand.Roles[0].Tasks), where)
}

// NeverAtAnySize is Never for the least size of an elastic job.
func (p *Plan) NeverAtAnySize(id job.ID, where place.Strategy) job.Reason {
	if !p.known(id, "place") {
		return job.Reason{}
	}
	r := p.state.Record(id)
	least, _ := r.Job.Demand.Roles[0].Range()
	return p.never(r, int(least), where)
}

// noType is why jobs of a class for which there is no type can never run.
func noType(class *state.Class) job.Reason {
	why := job.Reason{Code: job.NoSuchType, Job: job.None}
	if class.Lacks != "" {
		why.Text = "no node has any " + class.Lacks + ": it can never run here"
	}
	if class.Still {
		why.Text = "on every GPU that it could have it is believed to run at speed 0: it can never run here"
	}
	return why
}

// emptyKey names a question that was put to the empty cluster.
type emptyKey struct {
	class, tasks int32
	where        place.Strategy
}

// emptyAnswer is the last answer about a class. It saves a look into the map
// when the same question comes again. The zero value answers no question,
// because every question has a strategy.
type emptyAnswer struct {
	tasks int32
	where place.Strategy
	why   job.Reason
}

// never is Never for a gang of the given size. It asks the strategy about an
// empty copy of the cluster, and keeps the answers until nodes come or go.
func (p *Plan) never(r *job.Record, tasks int, where place.Strategy) job.Reason {
	if v := p.state.Cluster.Version(); p.answers == nil || p.version != v {
		p.empty.Cluster, p.version, p.answers = nil, v, map[emptyKey]job.Reason{}
		clear(p.last)
	}
	key := emptyKey{r.Class, int32(tasks), where}
	for int(r.Class) >= len(p.last) {
		p.last = append(p.last, emptyAnswer{})
	}
	last := &p.last[r.Class]
	if last.tasks == key.tasks && last.where == where {
		return last.why
	}
	if why, known := p.answers[key]; known {
		*last = emptyAnswer{key.tasks, where, why}
		return why
	}
	class := p.state.Class(r.Class)
	why := noType(class)
	if !class.NoType {
		if p.empty.Cluster == nil {
			p.empty.Cluster, p.empty.Rand = p.state.Cluster.Empty(), rand.New(rand.NewPCG(0, 0))
		}
		p.request(&p.empty, r, tasks)
		why = job.Reason{}
		if _, ok := place.Gang(&p.empty, where); !ok {
			why = impossible(&p.empty, class)
		}
	}
	p.answers[key], *last = why, emptyAnswer{key.tasks, where, why}
	return why
}

// works tells whether all nodes and devices of an Alloc work, and take new work as
// far as others do not use them.
func works(c *cluster.Cluster, a *cluster.Alloc) bool {
	return !slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool { return !c.Usable(p.Node) }) &&
		!slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return c.Defect(s.Device) })
}

// impossible is why a gang does not fit on the empty cluster.
func impossible(r *place.Request, class *state.Class) job.Reason {
	need, have := r.GPUs(), r.Cluster.TotalGPUs(class.Scope, class.Mask)
	why := job.Reason{Code: job.Impossible, Need: int32(need), Have: int32(have), Job: job.None}
	if text := r.Cluster.NoNode(class.Scope); text != "" {
		why.Code, why.Text = job.NoSuchNode, text
		return why
	}
	if need > have {
		why.Code = job.TooLarge
	}
	switch level := class.Demand.Within; {
	case need > have && class.Demand.Where != "":
		why.Text = fmt.Sprintf("needs %s of the nodes that it may use (%s), which have only %d in all: it can never run here", unit.Count(need, "GPU"), class.Demand.Where, have)
	case othersUse(r.Cluster):
		why.Text = "does not fit beside what others use of the nodes, even if no other job ran"
	case need <= have && level != "" && !class.Demand.Prefer:
		why.Text = "would not fit into one " + level + ", as it must be placed, even if nothing else ran: it can never run here"
	}
	return why
}

// othersUse tells whether others use anything of a cluster.
func othersUse(c *cluster.Cluster) bool {
	for n := range cluster.NodeID(c.Nodes()) {
		if othersOn(c, n) {
			return true
		}
	}
	return false
}

// othersOn tells whether others use anything of a node.
func othersOn(c *cluster.Cluster, n cluster.NodeID) bool {
	f := c.Foreign(n)
	return !f.None()
}

// besideOthers tells whether others use anything of the nodes of an Alloc.
func besideOthers(c *cluster.Cluster, a *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Pieces, func(p cluster.Piece) bool { return othersOn(c, p.Node) })
}

// take books devices for a job. a may be p.req.Out: it is copied.
func (p *Plan) take(op *Op, a *cluster.Alloc) bool {
	d := p.state.Record(op.Job).Job.Demand
	if !p.sized(op.Job, "start it", a.Tasks(0)) {
		return false
	}
	for role := 1; role < job.MaxRoles; role++ {
		if n := a.Tasks(uint8(role)); n != int(d.Roles[role].Tasks) {
			return p.fail(op.Job, "start it", fmt.Sprintf("has %d tasks of role %q, not %d", d.Roles[role].Tasks, d.Roles[role].Name, n))
		}
	}
	own := p.newAlloc()
	own.CopyFrom(a)
	own.Slots = p.state.Class(p.state.Record(op.Job).Class).Slots
	keepBeat(own, op.Was)
	if op.Was != nil && p.state.Record(op.Job).Phase == job.Assigned && !own.Equal(op.Was) {
		return p.fail(op.Job, "move it", "waits for others to leave its devices")
	}
	err := p.state.Cluster.Allocate(own)
	if err != nil && op.Was != nil && own.Equal(op.Was) && works(p.state.Cluster, own) {
		err = p.state.Cluster.Reallocate(own) // it was there beside others who use more than is left
	}
	if err != nil {
		if short := (*cluster.ShortError)(nil); errors.As(err, &short) {
			p.why = job.Reason{Code: job.NeedSlots, Job: job.None, Text: short.Slot}
			p.Wait(op.Job, p.why)
			return false
		}
		if p.homed {
			p.why = job.Reason{Code: job.Occupied, Job: job.None}
			p.Wait(op.Job, p.why)
			return false
		}
		if besideOthers(p.state.Cluster, own) { // who may have taken what was free when the policy looked
			p.why = job.Reason{Code: job.NeedCPU, Job: job.None}
			p.Wait(op.Job, p.why)
			return false
		}
		return p.fail(op.Job, "start it", "does not fit: "+err.Error())
	}
	p.remember(op)
	p.turns++
	op.Now, op.turn = own, p.turns
	p.arrives(op.Job, own)
	return true
}

// keepBeat has a job that comes back to its places keep its beat. was is what it had; nil: nothing.
func keepBeat(a, was *cluster.Alloc) {
	if was != nil && was.SamePlaces(a) {
		a.Beat = was.Beat
	}
}

// sized tells whether a gang can run with so many tasks of its first role, and
// makes the plan invalid when it cannot.
func (p *Plan) sized(id job.ID, what string, tasks int) bool {
	least, most := p.state.Record(id).Job.Demand.Roles[0].Range()
	switch {
	case tasks >= int(least) && tasks <= int(most):
		return true
	case least == most:
		return p.fail(id, what, fmt.Sprintf("is a gang of %d tasks, not %d", least, tasks))
	}
	return p.fail(id, what, fmt.Sprintf("is a gang of %d to %d tasks, not %d", least, most, tasks))
}

// newAlloc is an empty Alloc that lives as long as the plan.
func (p *Plan) newAlloc() *cluster.Alloc {
	if p.used == len(p.allocs) {
		p.allocs = append(p.allocs, new(cluster.Alloc))
	}
	a := p.allocs[p.used]
	p.used++
	a.Reset()
	return a
}

func (p *Plan) remember(op *Op) {
	if p.depth > 0 {
		p.undo = append(p.undo, undoOp{int(p.opOf[op.Job]) - 1, *op})
	}
}

func (p *Plan) known(id job.ID, what string) bool {
	if p.state.Known(id) {
		return true
	}
	if p.err == nil {
		p.err = fmt.Errorf("cannot %s job number %d: there is no such job", what, id)
	}
	return false
}

func (p *Plan) fail(id job.ID, what, why string) bool {
	if p.err == nil {
		p.err = fmt.Errorf("job %s: cannot %s: it %s", p.state.Record(id).Job.Key, what, why)
	}
	return false
}

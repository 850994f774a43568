package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/local/mps"
	"github.com/norn-scheduler/norn/local/rundir"
)

// packing is the daemon as it keeps servers of CUDA MPS.
type packing struct{ *Daemon }

// packer is a server of CUDA MPS, through which jobs of one user compute on one GPU at
// the same time. It outlives the daemon.
type packer struct {
	note   packerNote
	dir    string        // of the note
	used   time.Duration // when a run last used it
	ending bool
	before *packer // in the same folder, which may still be ending
	gone   chan struct{}
	mu     sync.Mutex // one call of its control program at a time
}

// packerNote is kept beside the state, so that the next daemon finds the server.
type packerNote struct {
	Device string     `json:"device"`
	Server mps.Server `json:"server"`
}

const packerFile = "mps.json"

func (p *packer) serves(device string, u *rundir.User) bool {
	return !p.ending && p.note.Device == device && uidOf(p.note.Server.User) == uidOf(u)
}

func uidOf(u *rundir.User) int {
	if u == nil {
		return os.Geteuid()
	}
	return int(u.UID)
}

// pack lets the tasks of a run compute through MPS beside those of other jobs,
// if there is MPS. A task must see one GPU and hold a part of it; with
// MPS.Always it may also hold all of it. The function that pack returns is
// called before the run is launched. If MPS cannot be started, the run is
// launched nevertheless, and jobs share the GPU in turns.
func (d packing) pack(l *entry, a *cluster.Alloc, run *rundir.Run) func() error {
	l.packers = nil
	if d.opt.MPS.Program == "" {
		return func() error { return nil }
	}
	g := len(a.Shares)
	for rank := range run.Tasks {
		mine := a.Shares
		if n := len(run.Tasks); n > 1 && g >= n {
			mine = a.Shares[rank*g/n : (rank+1)*g/n]
		}
		if len(mine) != 1 {
			continue
		}
		s := &mine[0]
		dev := &d.opt.Machine.Devices[s.Device]
		if !dev.Packs || dev.UUID == "" || s.Milli >= 1000 && !d.opt.MPS.Always {
			continue
		}
		p := d.packerFor(dev, run.User)
		if !slices.Contains(l.packers, p) {
			l.packers = append(l.packers, p)
		}
		memory := api.Bytes(0)
		if s.Milli < 1000 {
			memory = api.Bytes(s.Memory)
		}
		run.Tasks[rank].Env = append(run.Tasks[rank].Env, p.note.Server.Client(int(s.Milli), memory)...)
	}
	needed := l.packers
	return func() error {
		for _, p := range needed {
			if err := p.start(); err != nil {
				d.log.Warn("CUDA MPS cannot be started; the job shares its GPU in turns", "job", run.Job, "device", p.note.Device, "error", err)
				for rank := range run.Tasks {
					run.Tasks[rank].Env = mps.Without(run.Tasks[rank].Env)
				}
				break
			}
		}
		return nil
	}
}

// packerFor is the server of a GPU for a user. Its folder is below the state
// folder for the daemon's own user, and otherwise in a place that the user can
// reach.
func (d packing) packerFor(dev *Device, u *rundir.User) *packer {
	p := &packer{dir: filepath.Join(d.store.dir, "mps", fmt.Sprintf("%s-%d", dev.Name, uidOf(u))), used: d.Loop.Now(), gone: make(chan struct{})}
	for _, o := range d.packers {
		if o.serves(dev.Name, u) {
			o.used = d.Loop.Now()
			return o
		}
		if o.dir == p.dir {
			p.before = o
		}
	}
	p.note = packerNote{Device: dev.Name, Server: mps.Server{Program: d.opt.MPS.Program, Folder: p.dir, UUID: dev.UUID, User: u}}
	if u != nil {
		p.note.Server.Folder = filepath.Join(os.TempDir(), "norn-mps-"+newToken()[:12])
	}
	d.packers = append(d.packers, p)
	return p
}

// start starts the server, unless it answers.
func (p *packer) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before != nil {
		<-p.before.gone
		p.before = nil
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	if err := rundir.Write(p.dir, packerFile, p.note); err != nil {
		return err
	}
	return p.note.Server.Start(context.Background())
}

// quit ends the server, and removes its folder and note.
func (p *packer) quit() error {
	defer close(p.gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx := context.Background()
	if p.note.Server.Alive(ctx) {
		if err := p.note.Server.Quit(ctx); err != nil {
			return err
		}
	}
	if strings.HasPrefix(p.note.Server.Folder, filepath.Join(os.TempDir(), "norn-mps-")) || p.note.Server.Folder == p.dir {
		os.RemoveAll(p.note.Server.Folder)
	}
	return os.RemoveAll(p.dir)
}

// lookAtPackers ends the servers that no run has used for long enough.
func (d packing) lookAtPackers() {
	for _, p := range d.packers {
		if p.ending {
			continue
		}
		if d.computesThrough(p) {
			p.used = d.Loop.Now()
			continue
		}
		if d.Loop.Now()-p.used < d.opt.Defaults.ResidentIdle {
			continue
		}
		p.ending = true
		d.Loop.Go(func() {
			if err := p.quit(); err != nil {
				d.log.Warn("CUDA MPS cannot be ended", "device", p.note.Device, "error", err)
			}
			d.Loop.Post(func() error {
				d.packers = slices.DeleteFunc(d.packers, func(o *packer) bool { return o == p })
				return nil
			})
		})
	}
}

// computesThrough tells whether a run, or a resident trainer, may be a client of a
// server.
func (d packing) computesThrough(p *packer) bool {
	return d.any(func(l *entry) bool { return l.stage.there() && slices.Contains(l.packers, p) }) ||
		slices.ContainsFunc(d.residents, func(r *resident) bool { return slices.Contains(r.note.Devices, p.note.Device) })
}

// findPackers finds the servers that the daemon before this one started.
func (d packing) findPackers() {
	dirs, _ := filepath.Glob(filepath.Join(d.store.dir, "mps", "*"))
	for _, dir := range dirs {
		p := &packer{dir: dir, used: d.State().Now, gone: make(chan struct{})}
		if recovery(d).readFile(dir, packerFile, &p.note, "no job uses that server of CUDA MPS any more; end it yourself") {
			d.packers = append(d.packers, p)
		}
	}
}

// packersOf are the servers that the tasks of a run were launched with.
func (d packing) packersOf(run *rundir.Run) (out []*packer) {
	for _, p := range d.packers {
		pipe := p.note.Server.Client(1000, 0)[0]
		if slices.ContainsFunc(run.Tasks, func(t rundir.Task) bool { return slices.Contains(t.Env, pipe) }) {
			out = append(out, p)
		}
	}
	return out
}

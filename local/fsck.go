package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Fsck holds the state folder of a daemon that does not run against itself: log, history
// and folders against each other, and every file against its checksum. With mend it
// mends what can be mended, as a daemon that starts does, and sets aside what cannot; it
// may be repeated. It fails where a daemon has the folder.
func Fsck(opt Options, mend bool) (api.Fsck, error) {
	if _, err := os.Stat(opt.State); err != nil {
		return api.Fsck{}, fmt.Errorf("the state folder: %w", err)
	}
	d, leave, err := survey(opt)
	if err == nil && mend {
		err = repair{d}.keepsDevices(leave)
		d.Close()
		if err == nil {
			d, err = Open(opt)
		}
	}
	if err != nil {
		return api.Fsck{}, err
	}
	defer d.Close()
	defer d.Loop.End()
	c := checker{store: d.store, present: math.MaxInt, out: api.Fsck{Folder: d.store.dir, Findings: d.Findings()}}
	if err := c.files(); err != nil {
		return api.Fsck{}, err
	}
	if mend {
		repair{d}.mend(&c)
	}
	return c.result(), nil
}

// keepsDevices refuses to mend where jobs would have to leave their devices for it, as on
// a machine of which this program is not told all: that is for a daemon to decide.
func (d repair) keepsDevices(leave int) error {
	if s := d.State(); leave > 0 || s != nil && recovery(d).otherDevices() {
		return errors.New("the state folder is that of a machine with other devices than norn finds here, so that running jobs would have to leave theirs: give the same --devices and --config as norn up has, or let norn up mend it")
	}
	return nil
}

// survey is Open for who only looks. It returns how many jobs would have to leave what
// they run on.
func survey(opt Options) (d *Daemon, leave int, err error) {
	if d, err = newDaemon(opt); err != nil {
		return nil, 0, err
	}
	if leave, err = d.Survey(); err != nil {
		d.Close()
		return nil, 0, err
	}
	return d, leave, nil
}

// Fsck implements server.Backend. Log, history and folders were held against each other
// when the daemon started, and it has written them since: it is files that may have
// changed behind its back.
func (d *Daemon) Fsck(ctx context.Context, caller server.Caller, mend bool) (api.Fsck, error) {
	if !caller.Operator {
		return api.Fsck{}, api.Refuse(api.Denied, "the state folder has the jobs of all users: only an operator may check it")
	}
	c := checker{store: d.store, out: api.Fsck{Folder: d.store.dir}}
	err := d.Loop.Ask(ctx, func() (err error) {
		c.out.Findings = d.Findings()
		c.present, c.size, err = d.Present()
		return err
	})
	if err == nil {
		err = c.files()
	}
	if err == nil && mend && len(c.found) > 0 {
		err = d.Change(ctx, func() error { repair{d}.mend(&c); return nil })
	}
	return c.result(), err
}

// checker holds files against their checksums.
type checker struct {
	store   *store
	present int   // the log that is being written, and how much of it there is
	size    int64 //
	out     api.Fsck
	found   []damaged
}

// damaged is a file that is not as it was written.
type damaged struct {
	api.Finding
	log  int   // a log: its number
	good int64 // and how much of it is as it was written
	key  string
	run  int // of the folder of a run
}

// result is what was found, each thing once.
func (c *checker) result() api.Fsck {
	out := c.out
	if out.Findings == nil {
		out.Findings = []api.Finding{}
	}
	for _, f := range c.found {
		same := func(o api.Finding) bool { return o.File == f.File && o.Done != "" && f.Done == "" }
		if !slices.ContainsFunc(out.Findings, same) {
			out.Findings = append(out.Findings, f.Finding)
		}
	}
	return out
}

// files looks at all files.
func (c *checker) files() error {
	if err := c.logs(); err != nil {
		return err
	}
	ended, lines, err := c.store.CheckHistory()
	if err != nil {
		return err
	}
	if c.out.Ended = ended; len(lines) > 0 {
		c.found = append(c.found, damaged{Finding: api.Finding{File: "history.jsonl", Text: fmt.Sprintf("damaged lines: %v", lines)}})
	}
	for _, base := range c.store.folders() {
		if _, err := os.Stat(filepath.Join(c.store.jobDir(base), specFile)); err != nil {
			continue
		}
		c.out.Jobs++
		if _, err := c.store.readSpec(base); errors.Is(err, rundir.ErrDamaged) {
			c.found = append(c.found, damaged{Finding: api.Finding{File: filepath.Join("jobs", base, specFile), Job: base, Text: err.Error()}, key: base})
		}
	}
	c.runs()
	c.file(c.store.dir, drainedFile, new(drained), damaged{})
	return nil
}

// logs reads every log.
func (c *checker) logs() error {
	epochs, err := c.store.Epochs()
	if err != nil {
		return err
	}
	for _, n := range epochs {
		if n > c.present {
			break
		}
		to := int64(math.MaxInt64)
		if n == c.present {
			to = c.size
		}
		events, good, wrong, err := c.store.CheckLog(n, to)
		if errors.Is(err, os.ErrNotExist) { // it was dropped for its age meanwhile
			continue
		}
		if err != nil {
			return err
		}
		c.out.Logs++
		c.out.Events += events
		if wrong != nil {
			c.found = append(c.found, damaged{Finding: api.Finding{File: c.store.below(c.store.Path(n)), Text: wrong.Error()}, log: n, good: good})
		}
	}
	return nil
}

// runs looks at the folders of all runs.
func (c *checker) runs() {
	dirs, _ := filepath.Glob(filepath.Join(c.store.dir, "runs", "*", "*")) // the pattern is none that could be wrong
	for _, dir := range dirs {
		run, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		c.out.Runs++
		of := damaged{key: filepath.Base(filepath.Dir(dir)), run: run}
		c.file(dir, rundir.RunFile, new(rundir.Run), of)
		c.file(dir, rundir.WantFile, new(rundir.Want), of)
		c.file(dir, rundir.LimitsFile, new(rundir.Limits), of)
		c.file(dir, rundir.StatusFile, new(rundir.Status), of)
		c.file(dir, rundir.SavedFile, new(rundir.Saved), of)
		c.file(dir, rundir.ExitFile, new(rundir.Exit), of)
	}
}

// file looks at one file.
func (c *checker) file(dir, name string, v any, of damaged) {
	if _, err := rundir.Read(dir, name, v); errors.Is(err, rundir.ErrDamaged) {
		of.File, of.Job, of.Text = c.store.below(filepath.Join(dir, name)), of.key, err.Error()
		c.found = append(c.found, of)
	}
}

// repair is the daemon as it mends files that were changed.
type repair struct{ *Daemon }

// mend mends what was found, from what the daemon knows, or sets it aside.
func (d repair) mend(c *checker) {
	for i := range c.found {
		f := &c.found[i]
		done, err := d.mendFile(c, f)
		if err != nil {
			d.log.Error("a damaged file cannot be mended", "file", f.File, "error", err)
			continue
		}
		f.Done = done
		d.Tell(f.Finding)
	}
}

// mendFile mends one file, and says how.
func (d repair) mendFile(c *checker, f *damaged) (done string, err error) {
	name := filepath.Base(f.File)
	switch {
	case f.log == c.present:
		d.Renew()
		return "a new log is begun with all that norn knows; norn fsck --repair once more sets the old one aside", nil
	case f.log > 0:
		return fmt.Sprintf("the log is set aside and ends after %d bytes", f.good), d.store.CutOff(f.log, f.good, false)
	case name == "history.jsonl":
		return "the lines are set aside; what the log and the folders know of those jobs is written again by the next norn up", d.store.SetAsideLines()
	case name == drainedFile:
		return "it is written anew", rundir.Write(d.store.dir, drainedFile, d.health.drained)
	case name == specFile:
		if l := d.oneOf(f.key); l != nil && l.Broken == "" {
			return "it is written anew", d.store.writeSpec(l.stored)
		} else if l != nil {
			return "", nil // it is told by what becomes of the job
		}
	case f.run > 0:
		if done, err = d.mendRun(f, name); done != "" {
			return done, err
		}
	}
	return "it is set aside", d.store.SetAside(f.File)
}

// mendRun writes a file of a run anew that still matters; done is empty where it does not.
func (d repair) mendRun(f *damaged, name string) (done string, err error) {
	l := d.by(f.key)
	if l == nil || l.Run != f.run || l.exit != nil {
		return "", nil
	}
	dir := d.store.runDir(f.key, f.run)
	done = "it is written anew"
	switch name {
	case rundir.WantFile:
		return done, rundir.Write(dir, name, l.want)
	case rundir.LimitsFile:
		return done, rundir.Write(dir, name, l.limits)
	case rundir.SavedFile:
		return done, rundir.Write(dir, name, l.saved)
	case rundir.StatusFile:
		return "its runner writes it anew", nil
	case rundir.RunFile:
		return "it stays until the run has ended: its runner has read it", nil
	}
	return "", nil
}

// oneOf is a job of a submission that has not ended; nil: all have.
func (d repair) oneOf(base string) *entry {
	for l := range d.all() {
		if live.BaseOf(l.Key) == base {
			return l
		}
	}
	return nil
}

package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
)

// pieceOfInput is how much is typed at once: so that a piece is written as a whole or not
// at all (PIPE_BUF).
const pieceOfInput = 2048

// Input implements server.Backend.
func (d *Daemon) Input(ctx context.Context, c server.Caller, id string, in api.Input) error {
	dir := ""
	err := d.Loop.Ask(ctx, func() error {
		jobs, err := d.Mine(c, id)
		if err != nil {
			return err
		}
		l := d.entries[jobs[0].Key]
		switch {
		case len(jobs) > 1:
			return api.Refuse(api.Invalid, "%s is an array: name one of its jobs, such as %s", id, l.Key)
		case !l.Spec.PTY:
			return api.Refuse(api.Conflict, "job %s has no terminal: it was submitted without pty", l.Key)
		case d.State().Record(l.ID).Phase != job.Running || !l.stage.there():
			return api.Refuse(api.Unavailable, "job %s does not run", l.Key)
		}
		dir = d.store.runDir(l.Key, l.Run)
		return nil
	})
	if err != nil {
		return err
	}
	return typeAt(ctx, filepath.Join(dir, rundir.InputFile), in)
}

// typeAt hands what was typed to a runner.
func typeAt(ctx context.Context, path string, in api.Input) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil { // it has not come so far, or has ended
		return api.Refuse(api.Unavailable, "nobody listens there yet")
	}
	defer f.Close()
	f.SetWriteDeadline(time.Now().Add(5 * time.Second))
	for first := true; first || len(in.Data) > 0; first = false {
		piece := api.Input{Rows: in.Rows, Cols: in.Cols, Data: in.Data[:min(len(in.Data), pieceOfInput)]}
		in.Data = in.Data[len(piece.Data):]
		b, err := json.Marshal(piece)
		if err != nil {
			return err
		}
		if _, err := f.Write(append(b, '\n')); errors.Is(err, os.ErrDeadlineExceeded) {
			return api.Refuse(api.Unavailable, "the job does not read what is typed")
		} else if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

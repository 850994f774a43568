package server

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/jsontext"
)

// listPiece is about how much of a list is written at once, in bytes.
const listPiece = 64 << 10

// encodeList writes a list of jobs by hand, piece by piece, several times as
// fast as package json does: lists are long, and asked for often.
func encodeList(out io.Writer, l JobList) error {
	w := jobWriter{jsontext.Writer{B: append(make([]byte, 0, listPiece+listPiece/4), `{"jobs":[`...)}}
	for i := range l.Jobs {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.job(&l.Jobs[i])
		if w.Err != nil {
			panic(w.Err) // a mistake in norn
		}
		if len(w.B) >= listPiece {
			send(out, w.B)
			w.B = w.B[:0]
		}
	}
	send(out, append(w.B, "]}\n"...))
	return nil
}

// send writes; whoever does not take it has left.
func send(out io.Writer, b []byte) {
	if _, err := out.Write(b); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// jobWriter writes jobs with the fields that package api says, in its order.
type jobWriter struct{ jsontext.Writer }

func (w *jobWriter) job(j *api.Job) {
	w.B = append(w.B, '{')
	w.text("id", j.ID)
	w.Text("name", j.Name)
	w.text("user", j.User)
	w.Text("tenant", j.Tenant)
	w.text("state", string(j.State))
	w.Text("reason", j.Reason)
	w.own("gpus", j.GPUs.Elastic(), j.GPUs.Least, j.GPUs)
	w.own("tasks", j.Tasks.PerGPU, float64(max(1, j.Tasks.N)), j.Tasks)
	w.Float("cpus", j.CPUs)
	w.Int("mem", int64(j.Memory))
	w.Int("priority", int64(j.Priority))
	w.Float("gpus_held", j.Held)
	w.texts("devices", j.Devices)
	w.Int("throttle", int64(j.Throttle))
	w.Float("speed", j.Speed)
	w.text("stop_mode", j.StopMode)
	w.moment("submitted", j.Submitted)
	w.momentIfAny("started", j.Started)
	w.moment("since", j.Since)
	w.momentIfAny("ended", j.Ended)
	w.number("wait", float64(j.Wait))
	w.number("ran", float64(j.Ran))
	w.Float("gpu_seconds", float64(j.GPUTime))
	w.Float("est", float64(j.Estimate))
	w.momentIfAny("expected_end", j.ExpectEnd)
	w.Int("run", int64(j.Run))
	w.Int("preemptions", int64(j.Preemptions))
	w.Int("resizes", int64(j.Resizes))
	w.Int("failures", int64(j.Failures))
	if j.Exit != nil {
		w.any("exit", j.Exit)
	}
	if j.Progress != nil {
		w.any("progress", j.Progress)
	}
	w.Bool("pty", j.PTY)
	if j.Command == nil {
		w.any("command", nil)
	}
	w.texts("command", j.Command)
	w.Text("dir", j.Dir)
	if len(j.After) > 0 {
		w.any("after", j.After)
	}
	w.Float("limit", float64(j.Limit))
	w.momentIfAny("deadline", j.Deadl)
	w.B = append(w.B, '}')
}

// text writes a string even where it is empty.
func (w *jobWriter) text(name, v string) {
	w.Key(name)
	w.B = jsontext.AppendText(w.B, v)
}

func (w *jobWriter) texts(name string, v []string) {
	if len(v) == 0 && (name != "command" || v == nil) {
		return
	}
	w.Key(name)
	w.B = append(w.B, '[')
	for i, s := range v {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = jsontext.AppendText(w.B, s)
	}
	w.B = append(w.B, ']')
}

func (w *jobWriter) number(name string, v float64) {
	w.Key(name)
	w.Number(v)
}

// own writes what is a number, or text in a way of its own.
func (w *jobWriter) own(name string, text bool, number float64, v any) {
	if text {
		w.any(name, v)
		return
	}
	w.number(name, number)
}

func (w *jobWriter) moment(name string, t time.Time) {
	w.Key(name)
	w.B = append(w.B, '"')
	b, err := t.AppendText(w.B)
	if err != nil {
		w.Err = err
		return
	}
	w.B = append(b, '"')
}

func (w *jobWriter) momentIfAny(name string, t time.Time) {
	if !t.IsZero() {
		w.moment(name, t)
	}
}

// any leaves what few jobs have to package json.
func (w *jobWriter) any(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.Err = err
	}
	w.Key(name)
	w.B = append(w.B, text...)
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// unclosed is a writer that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// sampleLog is the log of a machine on which the built-in jobs have run under tiresias since a moment.
func sampleLog(t *testing.T, since time.Time) string {
	t.Helper()
	spec, err := loadCluster(gen.SampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	src, err := experiment.OpenSample(trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	c, err := experiment.ParseChoice("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	var to bytes.Buffer
	x := experiment.Experiment{Spec: spec, Seed: 1, Log: func(string) (experiment.Log, error) { return experiment.Log{WriteCloser: unclosed{&to}}, nil }}
	x.Header.Origin = since
	if _, err := x.Run(t.Context(), c, src); err != nil {
		t.Fatal(err)
	}
	return to.String()
}

// autotune runs norn autotune beside a Norn with a log.
func autotune(t *testing.T, r *recorder, args ...string) (out, errOut string, code int) {
	t.Helper()
	s := shellOf(&fake{})
	s.connect = func(*shell, where) (daemon, error) { return r, nil }
	return liveIn(t.Context(), s, append([]string{"autotune", "--once"}, args...)...)
}

// TestAutotune: better settings are put in force, with --dry-run they are not; what comes of a look is a sentence or
// an object; too few jobs and flags that make no sense are said to be that.
func TestAutotune(t *testing.T) {
	r := &recorder{fake: &fake{status: api.Status{Policy: "tiresias"}}, log: sampleLog(t, noon.Add(-4*24*time.Hour))}
	few := []string{"--trials", "8"}
	out, errOut, code := autotune(t, r, append(few, "--dry-run", "--json")...)
	var o lookObject
	if err := json.Unmarshal([]byte(out), &o); err != nil || code != 0 {
		t.Fatalf("%v %d %s", err, code, errOut)
	}
	if o.Verdict != "changed" || !o.Dry || o.Was != "tiresias" || o.Is != o.Found || o.Gain < 0.1 || o.Later < 0.1 || o.Objective != "mean-jct" || !o.At.Equal(noon) || r.status.Policy != "tiresias" {
		t.Errorf("%+v, in force %s", o, r.status.Policy)
	}
	out, errOut, code = autotune(t, r, few...)
	if want := o.Is + " instead of tiresias: the mean completion time "; code != 0 || !strings.Contains(out, want) || r.status.Policy != o.Is || !slices.Contains(r.asked, "use "+o.Is) {
		t.Errorf("%d %s%s, asked %q; want %q", code, out, errOut, r.asked, want)
	}
	r.status.Policy = "tiresias"
	if out, _, code = autotune(t, r, append(few, "--stay", "limits=3600,36000", "--least", "0.9")...); code != 0 || !strings.Contains(out, "tiresias stays: tiresias(") || !strings.Contains(out, "limits=3600,36000)") || !strings.Contains(out, "90% is asked for") {
		t.Errorf("%d %s", code, out)
	}
	if out, _, code = autotune(t, r, "--few", "100000"); code != 0 || !strings.Contains(out, "tiresias stays: ") || !strings.Contains(out, "fewer than 100000") {
		t.Errorf("%d %s", code, out)
	}
	for want, args := range map[string][]string{
		"--every 1m": {"--every", "1m"}, "--window 0": {"--window", "0"}, "--trials 0": {"--trials", "0"}, "--few 0": {"--few", "0"}, "--later": {"--later", "1"},
		"--objective": {"--objective", "mean"}, "--estimates": {"--estimates", "nobody"}, "--stay limits": {"--stay", "limits"},
	} {
		if _, errOut, code := autotune(t, r, args...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d %s", args, code, errOut)
		}
	}
	r.err = api.Refuse(api.Denied, "only an operator may read the log")
	if _, errOut, code := autotune(t, r, few...); code == 0 || !strings.Contains(errOut, "only an operator") {
		t.Errorf("%d %s", code, errOut)
	}
}

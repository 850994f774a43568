package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/local/rundir"
)

func logOf(t *testing.T, run rundir.Run) (*output, func(suffix string) string) {
	t.Helper()
	dir := t.TempDir()
	return newOutput(dir, &run), func(suffix string) string {
		b, _ := os.ReadFile(filepath.Join(dir, rundir.OutputFile+suffix))
		return string(b)
	}
}

// Lines of several writers are not mixed up, and a line without an end does not
// wait for ever.
func TestLines(t *testing.T) {
	o, text := logOf(t, rundir.Run{})
	var w [2]*os.File
	for i := range w {
		var err error
		if w[i], err = o.pipe(i, fmt.Sprintf("[%d] ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		w[0].WriteString("aaa")
		w[1].WriteString("bbb")
		w[0].WriteString("aaa\n")
		w[1].WriteString("bbb\n")
	}
	w[0].WriteString("no end")
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(text(""), "[0] no end") {
		if time.Now().After(deadline) {
			t.Fatal("the line without an end waits")
		}
		time.Sleep(time.Millisecond)
	}
	w[1].WriteString("next\n")
	w[1].Close()
	for !strings.Contains(text(""), "[1] next\n") {
		time.Sleep(time.Millisecond)
	}
	w[0].WriteString(" yet\n")
	w[0].Close()
	o.drain(20 * time.Second)
	count := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(text("")), "\n") {
		count[line]++
	}
	if count["[0] aaaaaa"] != 500 || count["[1] bbbbbb"] != 500 || count["[0] no end"] != 1 || count["[0]  yet"] != 1 {
		t.Errorf("%v", count)
	}
}

func TestRotation(t *testing.T) {
	for _, keep := range []int{0, 1, 3} {
		o, text := logOf(t, rundir.Run{LogBytes: 100, LogKeep: keep})
		w, err := o.pipe(0, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			o.write(0, "", fmt.Appendf(nil, "%023d\n", i))
		}
		w.Close()
		o.drain(20 * time.Second)
		if !strings.HasSuffix(text(""), fmt.Sprintf("%023d\n", 49)) || len(text("")) > 100 {
			t.Errorf("keep %d: %q", keep, text(""))
		}
		all := text("")
		for i := 1; i <= keep; i++ {
			part := text(fmt.Sprintf(".%d", i))
			if len(part) != 96 {
				t.Errorf("keep %d: .%d has %d bytes", keep, i, len(part))
			}
			all = part + all
		}
		if first := 50 - len(all)/24; !strings.HasPrefix(all, fmt.Sprintf("%023d\n", first)) {
			t.Errorf("keep %d: it begins with %q", keep, all[:24])
		}
		if text(fmt.Sprintf(".%d", keep+1)) != "" {
			t.Errorf("keep %d: one more is kept", keep)
		}
	}
}

// On a full disk output is dropped, and what was lost is told once there is room.
func TestFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	o, text := logOf(t, rundir.Run{})
	o.write(0, "", []byte("begin\nhalf"))
	disk := o.file
	o.file = full
	w, err := o.pipe(0, "")
	if err != nil {
		t.Fatal(err)
	}
	lots := bytes.Repeat([]byte("lost\n"), 100_000)
	if n, err := w.Write(lots); n != len(lots) || err != nil { // is not held up
		t.Error(n, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for lost := 0; lost < len(lots); {
		o.mu.Lock()
		lost = int(o.lost)
		o.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes counted", lost)
		}
	}
	o.mu.Lock()
	o.file = disk
	o.mu.Unlock()
	w.WriteString("there\n")
	w.Close()
	o.drain(20 * time.Second)
	if want := "begin\nhalf\n[norn] 500000 bytes of output were lost: no space left on device\nthere\n"; text("") != want {
		t.Errorf("%q", text(""))
	}
}

// A folder that is gone loses output, no more.
func TestNoFolder(t *testing.T) {
	o := newOutput(filepath.Join(t.TempDir(), "none"), &rundir.Run{})
	o.write(0, "", []byte("text"))
	if o.lost != 4 || o.file != nil {
		t.Errorf("lost %d", o.lost)
	}
	o.drain(time.Second)
}

// A pipe that is kept open by somebody else does not hold the runner.
func TestPipeKeptOpen(t *testing.T) {
	o, text := logOf(t, rundir.Run{})
	w, err := o.pipe(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.WriteString("text")
	for text("") == "" {
		time.Sleep(time.Millisecond)
	}
	o.drain(10 * time.Millisecond)
	if text("") != "text" {
		t.Errorf("%q", text(""))
	}
}

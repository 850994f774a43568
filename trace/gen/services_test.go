package gen

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// TestServices: services use what is asked for on average, more at some hours than at
// others, and a function of time says so.
func TestServices(t *testing.T) {
	of := Services{Services: 200, For: time.Hour, Seed: 3}
	g, err := New(Options{Like: Philly, Jobs: 5})
	if err != nil {
		t.Fatal(err)
	}
	src, load := &AssumedServices{Source: g, Of: of}, of.Load()
	var e trace.Entry
	var use float64
	var byHour [24]float64
	n := 0
	for ; ; n++ {
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		j := e.Job
		if int(j.ID) != n || (j.Kind == job.Inference) != (n < 200) || n < 200 && (j.Stop != job.Pinned || e.Truth.Work != time.Hour) {
			t.Fatalf("%+v", j)
		}
		if n >= 200 {
			if times, until := load.At(&j, 0); times != 1 || until < 1000*time.Hour {
				t.Errorf("a training job makes %v of its demand until %v", times, until)
			}
			continue
		}
		for at := time.Duration(0); at < 24*time.Hour; {
			times, until := load.At(&j, at)
			if until <= at || until > at+loadStep || times <= 0 {
				t.Fatalf("at %v: %v until %v", at, times, until)
			}
			use += times * j.Hints.GPUUse * (until - at).Hours() / 24 / 200
			byHour[int(at.Hours())] += times * (until - at).Hours() / 200
			at = until
		}
	}
	if n != 205 || math.Abs(use-0.16) > 0.02 {
		t.Errorf("%d jobs; services use %v on average", n, use)
	}
	if byHour[4] < 1.3 || byHour[16] > 0.7 {
		t.Errorf("by hour: %v", byHour)
	}
}

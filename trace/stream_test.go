package trace_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// rows is a file in a format that is sorted by nature, made up as it is read.
type rows struct {
	n, at int
	rest  string
}

func (r *rows) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.at > r.n {
			return 0, io.EOF
		}
		if r.at == 0 {
			r.rest = "job_id,submission_time,duration,num_gpu\n"
		} else {
			r.rest = fmt.Sprintf("%d,%d,%d,%d\n", r.at, r.at, r.at%5000, 1<<(r.at%4))
		}
		r.at++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestStreams checks that a sorted file is read in memory that does not grow
// with it: the heap in use stays small while half a million jobs pass.
func TestStreams(t *testing.T) {
	const n = 500_000
	r, err := trace.NewReader(&rows{n: n}, "rows", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var e trace.Entry
	jobs := 0
	for {
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if jobs++; jobs == n-1 {
			runtime.GC()
			runtime.ReadMemStats(&during)
		}
	}
	if info := r.Info(); jobs != n || info.Held || info.Sorted {
		t.Errorf("%d jobs, %+v", jobs, info)
	}
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// TestFewAllocations checks that a row of the CSV costs far less than one
// allocation.
func TestFewAllocations(t *testing.T) {
	text := tenThousand()
	allocations := testing.AllocsPerRun(3, func() {
		r, err := trace.NewReader(strings.NewReader(text), "csv", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var e trace.Entry
		for r.Next(&e) == nil {
		}
	})
	if allocations > 3000 {
		t.Errorf("%v allocations for 10,000 rows", allocations)
	}
}

package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// read reads a trace to its end and counts its jobs.
func read(b *testing.B, r *trace.Reader, err error) int {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var e trace.Entry
	for n := 0; ; n++ {
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFiles reads published traces from disk, unpacking them.
func BenchmarkFiles(b *testing.B) {
	for _, name := range []string{
		"philly/philly_jobs_reconstructed.csv.gz", "helios/venus_gpu_jobs.csv.gz", "philly/sia_philly_passed_jobs.csv.gz",
		"alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz", "alibaba_openb2023/openb_pod_list_default.csv.gz", "muri/trace-data/trace2.csv.gz",
	} {
		path := data(b, name)
		b.Run(name[strings.LastIndexByte(name, '/')+1:], func(b *testing.B) {
			b.ReportAllocs()
			jobs := 0
			for b.Loop() {
				r, err := trace.Open(path, trace.Options{})
				jobs = read(b, r, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(jobs), "ns/job")
		})
	}
}

func tenThousand() string {
	var s strings.Builder
	s.WriteString("job,submit,user,tenant,model,gpus,duration\n")
	for i := range 10000 {
		fmt.Fprintf(&s, "job-%d,%d,user%d,vc%d,resnet50,%d,%d\n", i, i*10, i%200, i%12, 1<<(i%4), 60+i%5000)
	}
	return s.String()
}

// BenchmarkOwn reads and writes 10,000 jobs in Norn's own formats.
func BenchmarkOwn(b *testing.B) {
	text := tenThousand()
	entries, _ := readText(b, text, trace.Options{})
	var object bytes.Buffer
	if _, err := trace.WriteJSON(&object, &list{entries}); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{"csv": text, "jsonl": object.String()} {
		b.Run("read-"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r, err := trace.NewReader(strings.NewReader(text), name, trace.Options{})
				if n := read(b, r, err); n != len(entries) {
					b.Fatal(n)
				}
			}
		})
	}
	b.Run("write-csv", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := trace.WriteCSV(io.Discard, &list{entries}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write-jsonl", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := trace.WriteJSON(io.Discard, &list{entries}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("summarize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := trace.Summarize(&list{entries}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package trace_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
)

// TestQuoteThatIsNotClosed checks that a stray quote costs its own row alone: what
// follows is read, and the error tells the line.
func TestQuoteThatIsNotClosed(t *testing.T) {
	text := "job,gpus,duration\na,1,1\n\"b,1,2\nc,1,3\nd\",1,4\ne,1,5\n"
	_, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
	var bad *trace.Error
	if !errors.As(err, &bad) || bad.Line != 3 || !strings.Contains(err.Error(), "looks like a row of its own") {
		t.Errorf("two quotes around three rows: %v", err)
	}
	entries, info := readText(t, text, trace.Options{SkipBad: true})
	equalLines(t, entries,
		`{"job":"a","gpus":1,"work":1}`, `{"job":"c","gpus":1,"work":3}`, `{"job":"d\"","gpus":1,"work":4}`, `{"job":"e","gpus":1,"work":5}`)
	if info.Rows != 5 || info.Bad != 1 {
		t.Errorf("%+v", info)
	}
	entries, _ = readText(t, "gpus,duration,name\n1,1,\"two\nlines, and a comma\"\n1,2,\"\n\n\"\n", trace.Options{})
	equalLines(t, entries, `{"job":"0","gpus":1,"work":1,"name":"two\u000alines, and a comma"}`, `{"job":"1","gpus":1,"work":2,"name":"\u000a\u000a"}`)
}

// TestLineEnds reads the same rows with all kinds of line ends, in files longer
// than what is read at once.
func TestLineEnds(t *testing.T) {
	const rows = 9000
	for name, end := range map[string]func(i int) string{
		"LF": func(int) string { return "\n" }, "CRLF": func(int) string { return "\r\n" }, "CR": func(int) string { return "\r" },
		"mixed": func(i int) string { return []string{"\n", "\r", "\r\n"}[(i+3)%3] },
		"header alone": func(i int) string {
			if i < 0 {
				return "\n"
			}
			return "\r"
		},
	} {
		var text strings.Builder
		text.WriteString("job,gpus,duration" + end(-1))
		for i := range rows {
			text.WriteString("j" + strconv.Itoa(i) + ",1,5" + end(i))
		}
		entries, info := readText(t, text.String(), trace.Options{})
		if len(entries) != rows || info.Rows != rows || entries[rows-1].Job.Key != "j8999" || entries[rows-1].Truth.Work != entries[0].Truth.Work {
			t.Errorf("%s: %d jobs of %d rows", name, len(entries), info.Rows)
		}
	}
}

// TestSomeJob checks that a trace without any job is an error where one is wanted,
// which says why there is none.
func TestSomeJob(t *testing.T) {
	for _, test := range []struct {
		text string
		opt  trace.Options
		want string
	}{
		{"gpus,duration\n", trace.Options{}, "holds no jobs, in format csv"},
		{"gpus,duration\nx,1\n1,x\n", trace.Options{SkipBad: true}, "0 are no jobs that ran and 2 have errors, the first being: jobs, line 2, column 1 (gpus)"},
		{"gpus,duration\n1,1\n", trace.Options{From: 5}, "none of its jobs was asked for"},
		{"gpus,duration,submit\n1,1,9\n", trace.Options{To: 5}, "none of its jobs was asked for"},
		{"gpus,duration,cpus\n0,1,1\n", trace.Options{GPUJobs: true}, "none of its jobs was asked for"},
	} {
		for _, some := range []bool{false, true} {
			test.opt.SomeJob = some
			r, err := trace.NewReader(strings.NewReader(test.text), "jobs", test.opt)
			if err != nil {
				t.Fatal(err)
			}
			var e trace.Entry
			err = r.Next(&e)
			if some && (err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), test.want)) || !some && !errors.Is(err, io.EOF) {
				t.Errorf("%q, some job wanted %v: %v", test.text, some, err)
			}
		}
	}
}

// TestHarmless puts what a terminal would obey into all names of a file: no message
// has it.
func TestHarmless(t *testing.T) {
	const red = "\x1b[31mred\u009b"
	text := "job,tenant,gpus,duration,at_least,x" + red + "\n" + red + "," + red + ",1,1,,1\n" + red + ",t,1,1e11,,1\n\"" + red + "\",t,1,1,,1\n"
	r, err := trace.NewReader(strings.NewReader(text), "jobs", trace.Options{SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := trace.Summarize(r)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := sum.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	info := r.Info()
	for _, p := range info.Problems {
		out.WriteString(p.Error())
	}
	out.WriteString(strings.Join(info.Notes, "") + strings.Join(info.Ignored, ""))
	if !strings.Contains(out.String(), "?[31mred?") || strings.ContainsAny(out.String(), "\x1b\u009b") {
		t.Errorf("%q", out.String())
	}
}

// archive packs files into a tar, in order.
func archive(t testing.TB, files ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f[0], Size: int64(len(f[1])), Mode: 0o644, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f[0], "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchive reads a trace out of an archive, and refuses one of two files, one
// without any and one that breaks off.
func TestArchive(t *testing.T) {
	one := archive(t, [2]string{"d/", ""}, [2]string{"d/._jobs.csv", "x"}, [2]string{"d/jobs.csv", small})
	want, _ := readText(t, small, trace.Options{})
	entries, info := readText(t, string(one), trace.Options{})
	if len(entries) != len(want) || info.Format != "csv" {
		t.Errorf("%d jobs of %d, %+v", len(entries), len(want), info)
	}
	for text, say := range map[string]string{
		string(archive(t, [2]string{"a.csv", small}, [2]string{"b.csv", small})): `several files, "a.csv" and "b.csv"`,
		string(archive(t, [2]string{"d/", ""})):                                  "without a file in it",
		string(one[:len(one)-1024-512]):                                          "breaks off",
	} {
		if _, err := trace.NewReader(strings.NewReader(text), "jobs.tar", trace.Options{}); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("want %s: %v", say, err)
		}
	}
}

// TestProfileInArchive checks that a folder of profiles and an archive of it give
// the same run times.
func TestProfileInArchive(t *testing.T) {
	root := shared.Path(t, "data/pollux_sia/profiles")
	var files [][2]string
	for _, app := range []string{"cifar10", "ncf"} {
		found, err := filepath.Glob(filepath.Join(root, app, "*.csv"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no profiles, %v", app, err)
		}
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, [2]string{"sia/profiles/" + app + "/" + filepath.Base(f), string(text)})
		}
	}
	packed := filepath.Join(t.TempDir(), "profiles.tar")
	if err := os.WriteFile(packed, archive(t, files...), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "name,time,application,num_replicas,batch_size\na,0,cifar10,4,512\nb,1,ncf,2,256\n"
	want, _ := readText(t, text, trace.Options{Profile: root})
	have, _ := readText(t, text, trace.Options{Profile: packed})
	equalLines(t, have, lines(t, want)...)
	if _, err := trace.NewReader(strings.NewReader(text+"c,2,bert,1,12\n"), "f", trace.Options{Profile: packed, Sort: true}); err == nil || !strings.Contains(err.Error(), "bert") {
		t.Errorf("an application that is not in the archive: %v", err)
	}
}

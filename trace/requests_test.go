package trace_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
)

// The three layouts of requests say the same, in any order of rows; dates count from the first.
func TestRequestLayouts(t *testing.T) {
	for _, x := range []struct {
		text, title string
		named       bool
		clients     []string
	}{
		{"client,arrival,input,output\nb,1.5,7,9\na,0,5,3\n", "requests of norn", true, []string{"a", "b"}},
		{"req_id,client,prompt_len,output_len,req_time_s\n1,a,5,3,0.0\n2,b,7,9,1.5\n", "requests of VTC", true, []string{"a", "b"}},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5000000,5,3\n2023-11-16 18:15:48.0,7,9\n", "requests of Azure", false, []string{"c0", "c1"}},
	} {
		r, err := trace.ReadRequests(strings.NewReader(x.text), "x.csv", 2)
		if err != nil {
			t.Errorf("%s: %v", x.title, err)
			continue
		}
		want := []trace.Request{{Client: x.clients[0], Input: 5, Output: 3}, {Client: x.clients[1], At: 1500 * time.Millisecond, Input: 7, Output: 9}}
		if r.Title != x.title || r.Named != x.named || !slices.Equal(r.All, want) {
			t.Errorf("%s: %+v", x.title, r)
		}
		path := filepath.Join(t.TempDir(), "x.csv")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := trace.OpenRequests(path, 2); !trace.IsRequests(path) || err != nil || !slices.Equal(again.All, want) {
			t.Errorf("%s: the file: %v, %v", x.title, trace.IsRequests(path), err)
		}
		var out bytes.Buffer
		if err := trace.WriteRequests(&out, r.All); err != nil {
			t.Fatal(err)
		}
		if again, err := trace.ReadRequests(&out, "again", 1); err != nil || !slices.Equal(again.All, want) {
			t.Errorf("%s: written and read again: %+v, %v", x.title, again, err)
		}
	}
}

// What is wrong with a row is told with its line and column.
func TestWrongRequests(t *testing.T) {
	for text, want := range map[string]string{
		"": "has no header", "a,b\n": "line 1",
		"client,arrival,input,output\na,0,5,0\n":              "line 2, column 4 (output)",
		"client,arrival,input,output\na,0,5,1\nb,-1,5,1\n":    "line 3, column 2 (arrival)",
		"client,arrival,input,output\n,0,5,1\n":               "line 2, column 1 (client)",
		"client,arrival,input,output\na,0,x,1\n":              "line 2, column 3 (input)",
		"client,arrival,input,output\na,0\n":                  "line 2, column 3 (input)",
		"client,arrival,input,output\na,NaN,5,1\n":            "line 2, column 2 (arrival)",
		"client,arrival,input,output\n\"a,0,5,1\n":            "x.csv",
		"TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,5,3\n": "line 2, column 1 (TIMESTAMP)",
	} {
		if _, err := trace.ReadRequests(strings.NewReader(text), "x.csv", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, path := range []string{"no such file", t.TempDir()} {
		if trace.IsRequests(path) {
			t.Errorf("%s is a trace of requests", path)
		}
	}
}

// Nothing that is read makes the reader panic; what it takes can be written and read again.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("client,arrival,input,output\na,0,5,3\n"), 1)
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,5,3\n"), 3)
	f.Add([]byte("req_id,client,prompt_len,output_len,req_time_s\n1,\"a,b\",5,3,1e3\n"), 0)
	f.Fuzz(func(t *testing.T, b []byte, clients int) {
		r, err := trace.ReadRequests(bytes.NewReader(b), "f", clients%1000)
		if err != nil {
			return
		}
		if !slices.IsSortedFunc(r.All, func(a, b trace.Request) int { return int(min(1, max(-1, a.At-b.At))) }) {
			t.Fatal("not in the order of time")
		}
		var out bytes.Buffer
		if err := trace.WriteRequests(&out, r.All); err != nil {
			t.Fatal(err)
		}
		again, err := trace.ReadRequests(&out, "again", 1)
		var wrong *trace.Error
		if errors.As(err, &wrong) || err != nil || len(again.All) != len(r.All) {
			t.Fatalf("%v, %d of %d", err, len(again.All), len(r.All))
		}
	})
}

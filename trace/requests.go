package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one request to a server of a language model.
type Request struct {
	Client string
	At     time.Duration // since the trace begins
	Input  int           // tokens, at least 1
	Output int           // tokens, at least 1
}

// mostTokens bounds the tokens of a request, so that sums of them cannot overflow.
const mostTokens = 1 << 30

// requestColumns are the columns of a layout of requests, by their meaning.
type requestColumns struct {
	title                     string
	client, at, input, output string
	dated                     bool // moments are dates
}

// requestLayouts are the layouts of requests: ours, that of VTC's artifact, and that of Azure.
var requestLayouts = []requestColumns{
	{title: "requests of norn", client: "client", at: "arrival", input: "input", output: "output"},
	{title: "requests of VTC", client: "client", at: "req_time_s", input: "prompt_len", output: "output_len"},
	{title: "requests of Azure", at: "TIMESTAMP", input: "ContextTokens", output: "GeneratedTokens", dated: true},
}

// requestColumn tells where the columns of a layout are in a header; ok is false when one is missing.
func (l *requestColumns) find(header []string) (at [4]int, ok bool) {
	for i, name := range []string{l.client, l.at, l.input, l.output} {
		if at[i] = slices.Index(header, name); at[i] < 0 && name != "" {
			return at, false
		}
	}
	return at, true
}

// IsRequests tells whether a file is a trace of requests, by its first line. It is false for what cannot be read.
func IsRequests(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return false
	}
	body, err := unpack(f)
	if err != nil {
		return false
	}
	defer body.close()
	head, _ := body.Peek(headSize)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, _, ok := requestLayout(strings.Split(strings.TrimSpace(string(line)), ","))
	return ok
}

func requestLayout(header []string) (l *requestColumns, at [4]int, ok bool) {
	for i := range requestLayouts {
		if at, ok := requestLayouts[i].find(header); ok {
			return &requestLayouts[i], at, true
		}
	}
	return nil, at, false
}

// Requests is a trace of requests, in the order of time.
type Requests struct {
	Title string // of its layout
	Begin time.Time
	Named bool // it tells of clients
	All   []Request
}

// OpenRequests reads a trace of requests: columns client, arrival (s), input and output (tokens), or those of VTC's
// artifact or of Azure. Where it names no clients, requests are dealt to so many in turn. An error about a
// row is an *Error.
func OpenRequests(path string, clients int) (*Requests, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadRequests(f, path, clients)
}

// ReadRequests is OpenRequests for what a reader holds. The name is for messages.
func ReadRequests(in io.Reader, name string, clients int) (*Requests, error) {
	body, err := unpack(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer body.close()
	rows := csv.NewReader(body)
	rows.ReuseRecord, rows.FieldsPerRecord = true, -1
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: has no header: %w", name, err)
	}
	layout, at, ok := requestLayout(header)
	if !ok {
		return nil, &Error{File: name, Line: 1, Found: strings.Join(header, ","), Want: "the columns client, arrival, input and output"}
	}
	r := &requestReader{name: name, layout: layout, at: at, clients: max(1, clients), out: &Requests{Title: layout.title, Named: layout.client != ""}, names: map[string]string{}}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		if err := r.row(row, line); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.out.All, func(a, b Request) int { return int(min(1, max(-1, a.At-b.At))) })
	if len(r.out.All) > 0 {
		first := r.out.All[0].At
		if layout.dated {
			r.out.Begin = time.Unix(0, int64(first)).UTC()
			for i := range r.out.All {
				r.out.All[i].At -= first
			}
		}
	}
	return r.out, nil
}

// requestReader reads rows.
type requestReader struct {
	name    string
	layout  *requestColumns
	at      [4]int
	clients int
	out     *Requests
	names   map[string]string
}

func (r *requestReader) row(row []string, line int) error {
	field := func(i int) string {
		if c := r.at[i]; c >= 0 && c < len(row) {
			return strings.TrimSpace(row[c])
		}
		return ""
	}
	wrong := func(i int, column, want string) error {
		return &Error{File: r.name, Line: line, Column: column, Number: r.at[i] + 1, Found: field(i), Want: want}
	}
	var q Request
	var ok bool
	if q.Input, ok = tokensOf(field(2)); !ok {
		return wrong(2, r.layout.input, "a number of tokens, at least 1")
	}
	if q.Output, ok = tokensOf(field(3)); !ok {
		return wrong(3, r.layout.output, "a number of tokens, at least 1")
	}
	if q.At, ok = r.moment(field(1)); !ok {
		return wrong(1, r.layout.at, "a moment, in seconds or as 2023-11-16 18:15:46.68")
	}
	if q.Client = field(0); !r.out.Named {
		q.Client = fmt.Sprintf("c%0*d", len(strconv.Itoa(r.clients-1)), len(r.out.All)%r.clients)
	} else if q.Client == "" {
		return wrong(0, r.layout.client, "the name of a client")
	}
	if name, known := r.names[q.Client]; known {
		q.Client = name
	} else {
		q.Client = strings.Clone(q.Client)
		r.names[q.Client] = q.Client
	}
	r.out.All = append(r.out.All, q)
	return nil
}

func tokensOf(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= mostTokens
}

// moment is a time of arrival: seconds, or a date.
func (r *requestReader) moment(text string) (time.Duration, bool) {
	if r.layout.dated {
		t, err := time.Parse("2006-01-02 15:04:05", text)
		if err != nil || t.Year() < 1970 || t.Year() > 2200 {
			return 0, false
		}
		return time.Duration(t.UnixNano()), true
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0) || s > 1e9 {
		return 0, false
	}
	return time.Duration(math.Round(s * 1e9)), true
}

// WriteRequests writes a trace of requests as OpenRequests reads it.
func WriteRequests(w io.Writer, all []Request) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"client", "arrival", "input", "output"}) // Flush tells of errors
	for i := range all {
		q := &all[i]
		_ = out.Write([]string{q.Client, strconv.FormatFloat(q.At.Seconds(), 'f', -1, 64), strconv.Itoa(q.Input), strconv.Itoa(q.Output)})
	}
	out.Flush()
	return out.Error()
}

package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// resting are runs that rest on this and that.
func resting() []Named {
	knew, both, other, plain := result(3000, 600, 0), result(1500, 900, 0), result(900, 60, 0), result(800, 40, 0)
	knew.Estimates = "oracle"
	both.Estimates, both.Lacks = "oracle+50%", []string{"no job is elastic; it acts as srtf. --assume goodput", "no job has a deadline; it hurries no job. a column"}
	other.Estimates, other.Lacks = "user", both.Lacks
	return []Named{{"srtf", knew}, {"afs", both}, {"afs(regulate=false)", other}, {"las", plain}}
}

// TestRests: the names of runs are marked, the marks explained beneath the table, the same
// note once for all runs that it is about.
func TestRests(t *testing.T) {
	const lacks = "! afs, afs(regulate=false): no job is elastic; it acts as srtf. --assume goodput. And no job has a deadline; it hurries no job. a column"
	var text, markdown strings.Builder
	if err := Compare(resting()).WriteText(&text, TextOptions{Width: 1000}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, want := range []string{"policy ", "srtf * ", "afs *! ", "afs(regulate=false) ! ", "las  ", "", "* knew the true run times (--estimates oracle)",
		"* knew the true run times but for an error (--estimates oracle+50%)", lacks} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) || want == "" && lines[i] != "" {
			t.Fatalf("line %d of\n%s\nwant %q", i, text.String(), want)
		}
	}
	for _, line := range lines[1:5] {
		if len(line) != len(lines[0]) {
			t.Errorf("%d cells in %q, %d in the head", len(line), line, len(lines[0]))
		}
	}
	if err := Compare(resting()).WriteMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| srtf \\* |", "| afs \\*\\! |", "\n\n\\* knew the true run times", "\n\n\\! afs, afs\\(regulate=false\\): no job is elastic"} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("no %q in\n%s", want, markdown.String())
		}
	}
}

// TestRestsNarrow: marks stay where names are cut, and notes are broken between words.
func TestRestsNarrow(t *testing.T) {
	var text strings.Builder
	if err := Compare(resting()).WriteText(&text, TextOptions{Width: 60}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "… ! ") {
		t.Errorf("a cut name lost its mark:\n%s", text.String())
	}
	for line := range strings.Lines(text.String()) {
		if n := len([]rune(strings.TrimSpace(line))); n > 60 {
			t.Errorf("%d cells: %s", n, line)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "--assume goodput. And no job has a deadline;") {
		t.Errorf("words are missing:\n%s", text.String())
	}
}

// TestNothingToNote: a table of runs that rest on nothing is as it always was.
func TestNothingToNote(t *testing.T) {
	var text strings.Builder
	if err := Compare([]Named{{"las", result(800, 40, 0)}}).WriteText(&text, TextOptions{Width: 1000}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "\n") != 2 {
		t.Errorf("%s", text.String())
	}
}

// TestRestsFiles: CSV, JSON, the summary and the page have what runs rest on.
func TestRestsFiles(t *testing.T) {
	var c, j, s, page bytes.Buffer
	runs := resting()
	if err := Compare(runs).WriteCSV(&c); err != nil {
		t.Fatal(err)
	}
	if err := Compare(runs).WriteJSON(&j); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&c).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := len(rows[0]) - 2
	want := "no job is elastic; it acts as srtf. --assume goodput. And no job has a deadline; it hurries no job. a column"
	if !slices.Equal(rows[1][last:], []string{"oracle", ""}) || !slices.Equal(rows[2][last:], []string{"oracle+50%", want}) || !slices.Equal(rows[4][last:], []string{"", ""}) {
		t.Errorf("%q", rows)
	}
	var objects []struct {
		Estimates *string
		Lacks     []string
	}
	if err := json.Unmarshal(j.Bytes(), &objects); err != nil {
		t.Fatal(err)
	}
	if *objects[1].Estimates != "oracle+50%" || len(objects[1].Lacks) != 2 || objects[3].Estimates != nil || objects[3].Lacks == nil {
		t.Errorf("%+v", objects)
	}
	if err := runs[1].Result.WriteSummary(&s); err != nil {
		t.Fatal(err)
	}
	objects = append(objects[:0], objects[3])
	if err := json.Unmarshal(s.Bytes(), &objects[0]); err != nil || *objects[0].Estimates != "oracle+50%" || !slices.Equal(objects[0].Lacks, runs[1].Result.Lacks) {
		t.Errorf("%v, %+v", err, objects)
	}
	if err := WriteHTML(&page, Meta{}, runs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`afs <span class="quiet">*!</span></th>`, "<li>* knew the true run times (--estimates oracle)</li>", "it acts as srtf. --assume goodput. And no job has a deadline"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

package norn_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords is the largest number of words in a sentence of a comment. The aim is 30.
const mostWords = 40

// paragraph is one paragraph, or one item of a list, of a comment.
type paragraph struct {
	lines []int // in the file
	text  []string
}

// sentenceEnd matches a word that ends a sentence, and notSentenceEnd exceptions.
var (
	sentenceEnd    = regexp.MustCompile(`[.!?][)"”]*$`)
	notSentenceEnd = regexp.MustCompile(`^(e\.g\.|i\.e\.|al\.|p\.|cf\.)$`)
	listItem       = regexp.MustCompile(`^\s+(-|\d+\.) `)
	directive      = regexp.MustCompile(`^//[a-z]+:`)
)

// paragraphs splits a comment as go/doc does. It leaves out preformatted text and the
// output of examples.
func paragraphs(set *token.FileSet, group *ast.CommentGroup) (out []paragraph) {
	if strings.HasPrefix(group.Text(), "Output:") || strings.HasPrefix(group.Text(), "Unordered output:") {
		return nil
	}
	open, inList := false, false
	for _, c := range group.List {
		line := set.Position(c.Slash).Line
		for i, text := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
			indented := strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "  ")
			item := listItem.MatchString(text) && indented && !strings.HasPrefix(text, "\t")
			switch {
			case strings.TrimSpace(text) == "" || strings.HasPrefix(text, " # ") || directive.MatchString(c.Text):
				open, inList = false, false
				continue
			case item:
				open, inList, text = false, true, listItem.ReplaceAllString(text, "")
			case indented && !inList:
				open = false
				continue
			case !indented && inList:
				open, inList = false, false
			}
			if !open {
				out, open = append(out, paragraph{}), true
			}
			p := &out[len(out)-1]
			p.lines, p.text = append(p.lines, line+i), append(p.text, text)
		}
	}
	return out
}

// longSentences lists the sentences of a paragraph with more than mostWords words, with
// the lines on which they begin.
func (p *paragraph) longSentences(file string) (out []string) {
	words, begins := 0, 0
	var first []string
	end := func() {
		if words > mostWords {
			out = append(out, fmt.Sprintf("%s:%d: a sentence of %d words: %s ...", file, begins, words, strings.Join(first, " ")))
		}
		words, first = 0, nil
	}
	for i, text := range p.text {
		for _, word := range strings.Fields(text) {
			if words++; words == 1 {
				begins = p.lines[i]
			}
			if words <= 8 {
				first = append(first, word)
			}
			if sentenceEnd.MatchString(word) && !notSentenceEnd.MatchString(word) {
				end()
			}
		}
	}
	end()
	return out
}

// longWinded lists the long sentences in the comments of a Go file.
func longWinded(file string, src any) (out []string, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range parsed.Comments {
		for _, p := range paragraphs(set, group) {
			out = append(out, p.longSentences(file)...)
		}
	}
	return out, nil
}

// eachGoFile visits all Go files of the project, those of tests and their data too.
func eachGoFile(t *testing.T, visit func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		return visit(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSentencesAreShort: no sentence of a comment has more than mostWords words.
func TestSentencesAreShort(t *testing.T) {
	eachGoFile(t, func(path string) error {
		long, err := longWinded(path, nil)
		for _, text := range long {
			t.Error(text)
		}
		return err
	})
}

// TestLongSentenceIsFound: the check sees paragraphs, lists and comments behind code. It
// does not see preformatted text, headings and the output of examples.
func TestLongSentenceIsFound(t *testing.T) {
	long := strings.Repeat("word ", mostWords) + "end."
	short := strings.Repeat("word ", mostWords-1) + "end."
	src := "// " + short + " " + short + "\n" +
		"// " + strings.ReplaceAll(long, "word word word word ", "word word word word\n// ") + "\n" +
		"//\n" +
		"// Nouns:\n" +
		"//   - " + short + "\n" +
		"//     " + short + "\n" +
		"//   - " + long + "\n" +
		"//\n" +
		"//\t" + long + "\n" +
		"package p\n" +
		"\n" +
		"var x = 1 // " + long + "\n" +
		"\n" +
		"func f() {\n" +
		"\t// Output:\n" +
		"\t// " + long + "\n" +
		"}\n"
	got, err := longWinded("p.go", src)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, text := range got {
		lines = append(lines, strings.SplitN(text, ":", 3)[1])
	}
	if want := []string{"2", "17", "22"}; !slices.Equal(lines, want) {
		t.Errorf("long sentences on lines %v, want %v:\n%s", lines, want, strings.Join(got, "\n"))
	}
}

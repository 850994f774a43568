package site

import (
	"bytes"
	"html/template"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// repository is where files are shown that are no pages.
const repository = "https://github.com/norn-scheduler/norn/blob/main/"

// convert makes the HTML of a page, and its sections for the search.
func (p *page) convert() ([]section, error) {
	source := []byte(p.Text)
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	tree := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	p.mend(tree)
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, source, tree); err != nil {
		return nil, err
	}
	p.Body = template.HTML(b.String()) // of our own pages, and without raw HTML
	sections := sectionsOf(tree, source)
	for _, s := range sections {
		if s.level == 2 {
			p.Parts = append(p.Parts, s)
		}
	}
	return sections, nil
}

// anchors gives headings the anchors that GitHub gives them, so that links work in both places.
type anchors map[string]int

// Generate implements parser.IDs.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(string(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	name := b.String()
	n := a[name]
	a[name]++
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	return []byte(name)
}

// Put implements parser.IDs.
func (a anchors) Put([]byte) {}

// mend takes out what is for readers of the source alone, and has links lead to pages of the
// site, or to the repository.
func (p *page) mend(tree ast.Node) {
	var raw []ast.Node
	_ = ast.Walk(tree, func(n ast.Node, enters bool) (ast.WalkStatus, error) {
		if !enters {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock, *ast.RawHTML:
			raw = append(raw, n)
		case *ast.Link:
			n.Destination = []byte(p.leads(string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(p.leads(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	for _, n := range raw {
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// leads is where a link of a page leads within the site.
func (p *page) leads(to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
		return to
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	from := path.Dir(path.Join("docs", p.Path))
	at := path.Join(from, file)
	if rest, inside := strings.CutPrefix(at, "docs/"); inside && strings.HasSuffix(rest, ".md") {
		return strings.Repeat("../", strings.Count(p.Path, "/")) + linkOf(rest) + anchor
	}
	if at == "docs/policies" {
		return strings.Repeat("../", strings.Count(p.Path, "/")) + "index.html#policies"
	}
	return repository + at + anchor
}

// sectionsOf cuts a page into sections.
func sectionsOf(tree ast.Node, source []byte) []section {
	all := []section{{}}
	var b strings.Builder
	end := func() {
		all[len(all)-1].Text = strings.Join(strings.Fields(b.String()), " ")
		b.Reset()
	}
	_ = ast.Walk(tree, func(n ast.Node, enters bool) (ast.WalkStatus, error) {
		if !enters {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			end()
			id, _ := n.AttributeString("id")
			anchor, _ := id.([]byte)
			all = append(all, section{Heading: plain(n, source), Anchor: string(anchor), level: n.Level})
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				at := n.Lines().At(i)
				b.Write(at.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	end()
	if all[0].Text == "" {
		all = all[1:]
	}
	return all
}

// plain is the text of a node without marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, enters bool) (ast.WalkStatus, error) {
		if t, is := n.(*ast.Text); is && enters {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

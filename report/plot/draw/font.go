package draw

import (
	"strings"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"codeberg.org/go-fonts/liberation/liberationserifregular"
	ximage "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// font is letters of one face.
type font struct {
	file   []byte
	family string // as an SVG names it
	faces  *sfnt.Font
	buffer sfnt.Buffer
}

func newFont(serif bool) (*font, error) {
	f := &font{liberationsansregular.TTF, "'Liberation Sans', Arial, Helvetica, sans-serif", nil, sfnt.Buffer{}}
	if serif {
		f.file, f.family = liberationserifregular.TTF, "'Liberation Serif', 'Times New Roman', Times, serif"
	}
	var err error
	f.faces, err = sfnt.Parse(f.file)
	return f, err
}

// width is how long a text is. A letter that the font lacks is as wide as its sign for that.
func (f *font) width(s string, size float64) float64 {
	sum := fixed.Int26_6(0)
	for _, r := range s {
		at, err := f.faces.GlyphIndex(&f.buffer, r)
		if err != nil {
			at = 0
		}
		if a, err := f.faces.GlyphAdvance(&f.buffer, at, fixed.I(1000), ximage.HintingNone); err == nil {
			sum += a
		}
	}
	return float64(sum) / 64 / 1000 * size
}

// cut makes a text fit a width.
func (f *font) cut(s string, size, width float64) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r > 0xffff { // what a PDF could not show either
			return ' '
		}
		return r
	}, s)
	if f.width(s, size) <= width {
		return s
	}
	letters := []rune(s)
	for len(letters) > 1 && f.width(string(letters)+"…", size) > width {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}

package draw

import (
	"io"
	"strconv"
	"time"

	"codeberg.org/go-pdf/fpdf"
)

// pdf writes PDF.
type pdf struct{ p *fpdf.Fpdf }

func newPDF(width, height float64, f *font) *pdf {
	p := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: width, Ht: height}})
	p.SetMargins(0, 0, 0)
	p.SetAutoPageBreak(false, 0)
	p.SetCreationDate(time.Unix(0, 0).UTC()) // equal charts give equal files
	p.SetModificationDate(time.Unix(0, 0).UTC())
	p.SetCatalogSort(true)
	p.SetProducer("norn", true)
	p.AddUTF8FontFromBytes("f", "", f.file)
	p.AddPage()
	p.SetLineJoinStyle("round")
	return &pdf{p}
}

// rgb are the parts of #rrggbb.
func rgb(colour string) (r, g, b int) {
	n, _ := strconv.ParseUint(colour[1:], 16, 32) // colours are of this package and of palette
	return int(n >> 16), int(n >> 8 & 255), int(n & 255)
}

func (d *pdf) line(points []point, p pen) {
	d.p.SetDrawColor(rgb(p.colour))
	d.p.SetLineWidth(p.width)
	d.p.SetDashPattern(p.dash, 0)
	d.path(points)
	d.p.DrawPath("D")
}

func (d *pdf) path(points []point) {
	for i, p := range points {
		if i == 0 {
			d.p.MoveTo(p.x, p.y)
		} else {
			d.p.LineTo(p.x, p.y)
		}
	}
}

func (d *pdf) fill(x, y, width, height float64, colour string) {
	d.p.SetFillColor(rgb(colour))
	d.p.Rect(x, y, width, height, "F")
}

func (d *pdf) polygon(points []point, colour string) {
	d.p.SetFillColor(rgb(colour))
	d.path(points)
	d.p.ClosePath()
	d.p.DrawPath("F")
}

func (d *pdf) text(at point, text string, size, degrees float64, colour string) {
	d.p.SetFont("f", "", size)
	d.p.SetTextColor(rgb(colour))
	if degrees == 0 {
		d.p.Text(at.x, at.y, text)
		return
	}
	d.p.TransformBegin()
	d.p.TransformRotate(degrees, at.x, at.y)
	d.p.Text(at.x, at.y, text)
	d.p.TransformEnd()
}

func (d *pdf) clip(x, y, width, height float64) { d.p.ClipRect(x, y, width, height, false) }

func (d *pdf) unclip() { d.p.ClipEnd() }

func (d *pdf) end(w io.Writer) error { return d.p.Output(w) }

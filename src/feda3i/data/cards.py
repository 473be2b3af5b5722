"""Where data sets come from: publisher, address, licence, what to cite."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """One published data set."""

    name: str
    title: str
    publisher: str
    ask: str  # where and how to get it; nothing is ever downloaded
    licence: str  # what the publisher says, and where the binding text is
    cite: str

    def text(self) -> str:
        """Return lines that tell a reader how to get the set and use it."""
        return (
            f"no data folder given. {self.title} ({self.publisher})\n  get it: {self.ask}\n"
            f"  licence: {self.licence}\n  cite: {self.cite}\n"
            "then unpack all archives into one folder and add data=FOLDER "
            "(or data=synthetic for drawn images that need no download)"
        )


ISIC2017 = Card(
    name="isic2017",
    title="ISIC 2017, lesion segmentation",
    publisher="International Skin Imaging Collaboration",
    ask="https://challenge.isic-archive.com/data/#2017: Training Data, Training Part1 GroundTruth, "
    "Test v2 Data, Test v2 Part1 GroundTruth (four zip files, about 12 GB)",
    licence="CC-0 as stated on that page; the page is what counts",
    cite="Codella et al. 2018, arXiv:1710.05006",
)
BUSI = Card(
    name="busi",
    title="BUSI (the paper's BUS), breast ultrasound images",
    publisher="Cairo University, Baheya Hospital",
    ask="https://scholar.cu.edu.eg/?q=afahmy/pages/dataset (Dataset_BUSI.zip)",
    licence="free for research with citation; the publisher's page is what counts",
    cite="Al-Dhabyani et al. 2020, Data in Brief 28, 104863",
)
BUSIS = Card(
    name="busis",
    title="BUSIS, a benchmark for breast ultrasound image segmentation",
    publisher="Utah State University",
    ask="http://cvprip.cs.usu.edu/busbench/ (on request to the authors)",
    licence="research only, no redistribution, by agreement with the authors",
    cite="Zhang et al. 2022, Healthcare 10(4), 729",
)
UDIAT = Card(
    name="udiat",
    title="UDIAT (Dataset B), breast ultrasound lesions",
    publisher="Manchester Metropolitan University, UDIAT Diagnostic Centre",
    ask="write to Moi Hoon Yap, Manchester Metropolitan University, for the licence agreement",
    licence="research only, no redistribution, by signed agreement",
    cite="Yap et al. 2018, IEEE J. Biomed. Health Inform. 22(4), 1218-1226",
)
BREAST = Card(
    name="breast",
    title="BREAST of the FedA3I paper: BUSI, BUSIS and UDIAT",
    publisher="; ".join(card.publisher for card in (BUSI, BUSIS, UDIAT)),
    ask="; ".join(f"{card.name}: {card.ask}" for card in (BUSI, BUSIS, UDIAT)),
    licence="; ".join(f"{card.name}: {card.licence}" for card in (BUSI, BUSIS, UDIAT)),
    cite="; ".join(card.cite for card in (BUSI, BUSIS, UDIAT)),
)

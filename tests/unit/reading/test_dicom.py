import datetime

import numpy as np
import pytest

from feda3i.data.check import check_data
from feda3i.data.folder import load_folder
from feda3i.prepare.own import prepare_folder
from feda3i.reading.decode import Options

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")


def slices(count=3, shape=(16, 20), series=None, **changes):
    """Return CT slices, the highest first, and the masks of a bright square on each."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    series, study, frame = series or generate_uid(), generate_uid(), generate_uid()
    found, masks = [], []
    for number in range(count):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        image = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        image.SOPClassUID, image.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        image.SeriesInstanceUID, image.StudyInstanceUID = series, study
        image.FrameOfReferenceUID = frame
        image.PatientName, image.PatientID = "No^Body", "1"
        image.PatientBirthDate, image.PatientSex, image.AccessionNumber = "", "", ""
        image.StudyID, image.StudyDate, image.StudyTime = "1", "20200101", "120000"
        image.ReferringPhysicianName = ""
        image.Modality, image.InstanceNumber = "CT", number + 1
        image.SeriesNumber = 1
        image.ImagePositionPatient = [0.0, 0.0, 2.5 * (count - number)]
        image.ImageOrientationPatient = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        image.PixelSpacing, image.SliceThickness = [0.8, 0.6], 2.5
        image.Rows, image.Columns = shape
        image.SamplesPerPixel, image.PhotometricInterpretation = 1, "MONOCHROME2"
        image.BitsAllocated = image.BitsStored = 16
        image.HighBit, image.PixelRepresentation = 15, 0
        image.RescaleSlope, image.RescaleIntercept = 1, -1024
        image.WindowCenter, image.WindowWidth = 0, 1000
        for name, value in changes.items():
            setattr(image, name, value)
        mask = np.zeros(shape, bool)
        mask[3 + number : 9 + number, 4:12] = True
        image.PixelData = np.where(mask, 1324, 1024).astype(np.uint16).tobytes()
        found.append(image)
        masks.append(mask)
    return found, np.array(masks)


def segmentation(images, masks, segments=1):
    from highdicom.content import AlgorithmIdentificationSequence
    from highdicom.seg import Segmentation, SegmentDescription
    from highdicom.sr.coding import CodedConcept
    from pydicom.sr.codedict import codes

    algorithm = AlgorithmIdentificationSequence(
        name="test", version="1", family=codes.cid7162.ArtificialIntelligence
    )
    described = [
        SegmentDescription(
            segment_number=number,
            segment_label=f"part {number}",
            segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
            segmented_property_type=CodedConcept("108369006", "SCT", "Neoplasm"),
            algorithm_type="AUTOMATIC",
            algorithm_identification=algorithm,
        )
        for number in range(1, segments + 1)
    ]
    return Segmentation(
        source_images=images,
        pixel_array=masks,
        segmentation_type="BINARY",
        segment_descriptions=described,
        series_instance_uid=highdicom.UID(),
        series_number=2,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="test",
        manufacturer_model_name="test",
        software_versions="1",
        device_serial_number="1",
        content_date=datetime.date(2020, 1, 1),
        content_time=datetime.time(12),
    )


def write(root, images, drawn, names=None):
    (root / "images").mkdir(parents=True, exist_ok=True)
    (root / "masks").mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        image.save_as(root / "images" / f"{names or 'i'}{number}.dcm", enforce_file_format=True)
    if drawn is not None:
        drawn.save_as(root / "masks" / f"{names or 'm'}.dcm")


def test_slices_with_their_window_and_spacing(tmp_path):
    images, masks = slices()
    write(tmp_path / "in", images, segmentation(images, masks.astype(np.uint8)))
    result = prepare_folder(
        tmp_path / "in", tmp_path / "out", options=Options(size=None), workers=1
    )
    assert not result.problems
    cases = load_folder(tmp_path / "out", cache=False)
    assert cases.images.shape == (3, 16, 20, 1)
    np.testing.assert_array_equal(cases.masks, masks)
    # Values 0 and 300 in the window from -500 to 500.
    assert set(np.unique(cases.images[cases.masks == 0])) == {128}
    assert set(np.unique(cases.images[cases.masks == 1])) == {204}
    np.testing.assert_allclose(cases.spacing[0], (0.8, 0.6))


def test_volumes_are_sorted_by_position(tmp_path):
    images, masks = slices(4)
    write(tmp_path / "in", images, segmentation(images, masks.astype(np.uint8)))
    options = Options(size=None, volumes=True)
    prepare_folder(tmp_path / "in", tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert cases.images.shape == (1, 4, 16, 20, 1)
    np.testing.assert_array_equal(cases.masks[0], masks[::-1])  # the lowest first
    np.testing.assert_allclose(cases.spacing[0], (2.5, 0.8, 0.6))
    assert (cases.images[0, ..., 0][masks[::-1]] == 204).all()


def test_inverted_grey_and_own_window(tmp_path):
    images, masks = slices(2, PhotometricInterpretation="MONOCHROME1")
    write(tmp_path / "in", images, segmentation(images, masks.astype(np.uint8)))
    options = Options(size=None, window=(0, 300))
    prepare_folder(tmp_path / "in", tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert (cases.images[..., 0][cases.masks == 1] == 0).all()
    assert (cases.images[..., 0][cases.masks == 0] == 255).all()


def test_segments_are_classes(tmp_path):
    images, masks = slices(2)
    second = np.zeros_like(masks)
    second[:, 12:, 14:] = True
    both = np.stack([masks, second], axis=-1).astype(np.uint8)
    write(tmp_path / "in", images, segmentation(images, both, segments=2))
    options = Options(size=None, classes=("lesion", "duct"))
    prepare_folder(tmp_path / "in", tmp_path / "out", options=options, workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    np.testing.assert_array_equal(cases.masks, np.where(second, 2, masks))
    merged = prepare_folder(
        tmp_path / "in", tmp_path / "one", options=Options(size=None), workers=1
    )
    assert not merged.problems
    np.testing.assert_array_equal(load_folder(tmp_path / "one", cache=False).masks, masks | second)


def test_series_are_groups_and_folders_are_sources(tmp_path):
    for name in ("north", "south"):
        images, masks = slices(2)
        write(tmp_path / "in" / name, images, segmentation(images, masks.astype(np.uint8)))
    prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=16), workers=1)
    cases = load_folder(tmp_path / "out", cache=False)
    assert sorted(set(cases.sources)) == ["north", "south"]


def test_what_does_not_belong_together_is_named(tmp_path):
    images, masks = slices(2)
    drawn = segmentation(images, masks.astype(np.uint8))
    write(tmp_path / "in", images, drawn)
    strange, other = slices(2)
    write(tmp_path / "in", strange[:1], None, names="unseen")
    write(
        tmp_path / "in", [], segmentation(strange[1:], other[1:].astype(np.uint8)), names="orphan"
    )
    (tmp_path / "in" / "images" / "text.dcm").write_bytes(b"hello")
    result = prepare_folder(tmp_path / "in", tmp_path / "out", options=Options(size=16), workers=1)
    assert {(p.kind, p.name) for p in result.problems} == {
        ("corrupt DICOM", "images/text.dcm"),
        ("image missing", "masks/orphan.dcm"),
        ("image without mask", "images/unseen0.dcm"),
    }


def test_the_doctor_reads_series_and_names_those_without_a_mask(tmp_path):
    for number in range(3):
        images, masks = slices(4)
        drawn = segmentation(images, masks.astype(np.uint8)) if number < 2 else None
        for image in images if number == 1 else ():
            del image.PixelSpacing
        write(tmp_path / "north", images, drawn, f"s{number}")
    report = check_data(tmp_path, measure=False, workers=1)
    assert report.is_fit
    assert [fact.shape for fact in report.facts] == [(4, 16, 20)] * 2
    assert [fact.spacing for fact in report.facts] == [(2.5, 0.8, 0.6), ()]
    assert [p.name for p in report.problems if p.kind == "spacing missing"] == ["north/images/s13"]
    assert report.suggestion.by_slices
    bare = [p.name for p in report.problems if p.kind == "series without mask"]
    assert bare == [f"north/images/s2{number}.dcm" for number in range(4)]
    rows = {usage.folder: usage for usage in report.usage}
    assert rows["north/images"].reasons == {"series without mask": 4}


def test_a_table_in_the_folder_says_it_all(tmp_path):
    images, masks = slices()
    write(tmp_path, images, segmentation(images, masks.astype(np.uint8)))
    rows = [f"images/i{number}.dcm,masks/m.dcm\n" for number in range(len(images))]
    (tmp_path / "index.csv").write_text("".join(["image,mask\n", *rows]))
    cases = load_folder(tmp_path, volumes="slices", cache=False)
    assert len(cases) == len(images)
    np.testing.assert_array_equal(cases.masks, masks)
